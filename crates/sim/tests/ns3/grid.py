#!/usr/bin/env python3
"""The grid of a run of `buffers` in ns-3: a third opinion beside the simulator and the kernel's TCP.

    python3.11 -m venv /tmp/ns3 && /tmp/ns3/bin/pip install ns3==3.44.post0
    weir run buffers --seed 1 --json --set ... > run.json           # or: weir show ID --json
    /tmp/ns3/bin/python crates/sim/tests/ns3/grid.py run.json rows.txt

Points that rows.txt lacks are run in ns-3 and added to it, with as many seeds as the run has; points with queues or congestion controls
that ns-3 lacks are left out. Then a table of both, and of the real bed where the run has one, is printed as Markdown. It needs ns-3
only for points that rows.txt lacks. `crates/sim/tests/ns3.rs` compares the simulator with grid.txt, which is such a file.

ns-3 is GPL-2.0: it is run, and nothing of it is copied. What is made equal: packets of 1500 bytes and as many of them in a second and in
the buffer (one in transmission is outside of it), round trips, starts within a round trip, RFC 6928's initial window, SACK, a smallest RTO
of 200 ms, ACKs for two segments or after 40 ms, the settings of the queues, ACKs that take no capacity. What is not: ns-3's senders have
neither RACK nor a tail loss probe, its flows begin with a handshake, and its CUBIC leaves slow start by HyStart, not HyStart++.
"""
import json
import os
import sys

CONTROLS = {"reno": "TcpLinuxReno", "cubic": "TcpCubic", "bbr1": "TcpBbr", "dctcp": "TcpDctcp"}
QUEUES = {"fifo": "", "codel": "CoDelQueueDisc", "fq-codel": "FqCoDelQueueDisc", "pie": "PieQueueDisc"}
KEY = ("queue", "buffer_bdp", "flows", "mix", "rtt_ms", "rate", "duration_s", "warm_up_s")
# By the names of weir: how many decimals, and the factor of the unit.
FIGURES = {
    "utilisation": (3, 1),
    "Jain's index": (3, 1),
    "share of the first group": (3, 1),
    "median sojourn": (1, 1e3),
    "p99 of the sojourn": (1, 1e3),
    "loss": (4, 1),
}

MODEL = r"""
#include <algorithm>
#include <deque>
#include <string>
#include <vector>
namespace grid {
using namespace ns3;

struct Result { double utilisation, jain, first_share, p50_s, p99_s, loss; };

// What is counted of a run, from the end of the warm-up on.
static std::vector<double> sojourns_s;
static std::deque<double> entered_s;
static double last_entered_s;
static bool has_disc;
static uint64_t offered, dropped, sent;
static std::vector<Ptr<PacketSink>> sinks;
static std::vector<uint64_t> before;

// When a packet entered the queue is known as it leaves the queue disc, or as it enters the queue of the device without one.
void leaves_disc(Time sojourn) { last_entered_s = Simulator::Now().GetSeconds() - sojourn.GetSeconds(); }
void enters_device(Ptr<const Packet>) { entered_s.push_back(has_disc ? last_entered_s : Simulator::Now().GetSeconds()); }
void transmission_begins(Ptr<const Packet>) {
    sojourns_s.push_back(Simulator::Now().GetSeconds() - entered_s.front());
    entered_s.pop_front();
}
void transmission_ends(Ptr<const Packet>) { sent++; }
void arrives(Ptr<const Packet>) { offered++; }
void is_dropped(Ptr<const Packet>) { dropped++; }
void item_is_dropped(Ptr<const QueueDiscItem>) { dropped++; }
void warm() {
    sojourns_s.clear();
    offered = dropped = sent = 0;
    for (size_t i = 0; i < sinks.size(); i++) before[i] = sinks[i]->GetTotalRx();
}

double percentile(double p) {
    return sojourns_s.empty() ? 0 : sojourns_s[std::min(sojourns_s.size() - 1, (size_t)(p * sojourns_s.size()))];
}

void defaults() {
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 23));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 23));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    // As long as the smallest RTO, which is the default, it would have each single segment sent twice.
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::CoDelQueueDisc::MinBytes", UintegerValue(1500));
    Config::SetDefault("ns3::CoDelQueueDisc::UseEcn", BooleanValue(true));
    Config::SetDefault("ns3::PieQueueDisc::UseEcn", BooleanValue(true));
    Config::SetDefault("ns3::PieQueueDisc::QueueDelayReference", TimeValue(MilliSeconds(15)));
    Config::SetDefault("ns3::PieQueueDisc::Tupdate", TimeValue(MilliSeconds(15)));
    Config::SetDefault("ns3::PieQueueDisc::MaxBurstAllowance", TimeValue(MilliSeconds(150)));
    Config::SetDefault("ns3::PieQueueDisc::MeanPktSize", UintegerValue(1500));
    Config::SetDefault("ns3::PieQueueDisc::A", DoubleValue(0.125));
    Config::SetDefault("ns3::PieQueueDisc::B", DoubleValue(1.25));
}

// A flow i has ccs[i] at both ends and rtts_s[i]; the first `first` ones are the first group.
Result run(std::vector<std::string> ccs, std::vector<double> rtts_s, size_t first, std::string disc, double bits_per_s,
           double buffer_bytes, double duration_s, double warm_up_s, uint32_t seed) {
    size_t flows = ccs.size();
    entered_s.clear(); sinks.clear(); before.assign(flows, 0); warm();
    has_disc = !disc.empty();
    RngSeedManager::SetSeed(1); RngSeedManager::SetRun(seed);
    defaults();

    NodeContainer routers, senders, receivers;
    routers.Create(2); senders.Create(flows); receivers.Create(flows);
    InternetStackHelper stack; stack.InstallAll();
    uint32_t packets = std::max(1.0, std::floor(buffer_bytes / 1514.0));
    // The queue of the device is the FIFO; with a queue disc it has one of the packets.
    uint32_t of_disc = std::max(1u, packets - 1), of_device = has_disc ? 1 : packets;
    PointToPointHelper narrow, wide;
    // As many packets in a second as frames of 1514 bytes have: ns-3's have two bytes of PPP in front.
    narrow.SetDeviceAttribute("DataRate", DataRateValue(DataRate((uint64_t)(bits_per_s * (1502.0 / 1514.0)))));
    narrow.SetChannelAttribute("Delay", TimeValue(Seconds(0)));
    narrow.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(std::to_string(of_device) + "p"));
    wide.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    wide.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000p"));
    NetDeviceContainer link = narrow.Install(routers.Get(0), routers.Get(1));
    link.Get(1)->SetAttribute("DataRate", StringValue("10Gbps"));

    TrafficControlHelper control, none;
    Ptr<PointToPointNetDevice> device = DynamicCast<PointToPointNetDevice>(link.Get(0));
    if (has_disc) {
        control.SetRootQueueDisc("ns3::" + disc, "MaxSize", QueueSizeValue(QueueSize(std::to_string(of_disc) + "p")));
        Ptr<QueueDisc> root = control.Install(link.Get(0)).Get(0);
        root->TraceConnectWithoutContext("SojournTime", MakeCallback(&leaves_disc));
        root->TraceConnectWithoutContext("Drop", MakeCallback(&item_is_dropped));
    }
    device->GetQueue()->TraceConnectWithoutContext("Enqueue", MakeCallback(&enters_device));
    device->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&transmission_begins));
    device->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&transmission_ends));
    device->TraceConnectWithoutContext("MacTxDrop", MakeCallback(&is_dropped));
    routers.Get(0)->GetObject<TrafficControlLayer>()->TraceConnectWithoutContext("TcDrop", MakeCallback(&is_dropped));

    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.252"); addresses.Assign(link); addresses.NewNetwork();
    if (!has_disc) none.Uninstall(link.Get(0));
    Ptr<UniformRandomVariable> random = CreateObject<UniformRandomVariable>();
    for (size_t i = 0; i < flows; i++) {
        TypeIdValue cc(TypeId::LookupByName("ns3::" + ccs[i]));
        senders.Get(i)->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", cc);
        receivers.Get(i)->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", cc);
        wide.SetChannelAttribute("Delay", TimeValue(Seconds(0)));
        NetDeviceContainer in = wide.Install(senders.Get(i), routers.Get(0));
        wide.SetChannelAttribute("Delay", TimeValue(Seconds(rtts_s[i] / 2)));
        NetDeviceContainer out = wide.Install(routers.Get(1), receivers.Get(i));
        addresses.Assign(in); addresses.NewNetwork();
        Ipv4InterfaceContainer ends = addresses.Assign(out); addresses.NewNetwork();
        none.Uninstall(in); none.Uninstall(out);
        in.Get(1)->TraceConnectWithoutContext("MacRx", MakeCallback(&arrives));
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(receivers.Get(i)).Get(0)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(ends.GetAddress(1), 9));
        bulk.SetAttribute("SendSize", UintegerValue(1448));
        bulk.Install(senders.Get(i)).Start(Seconds(random->GetValue(0, rtts_s[i])));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    Simulator::Schedule(Seconds(warm_up_s), &warm);
    Simulator::Stop(Seconds(duration_s));
    Simulator::Run();
    double sum = 0, squares = 0, of_first = 0;
    for (size_t i = 0; i < flows; i++) {
        double bytes = sinks[i]->GetTotalRx() - before[i];
        sum += bytes; squares += bytes * bytes;
        if (i < first) of_first += bytes;
    }
    std::sort(sojourns_s.begin(), sojourns_s.end());
    Result result = {sent * 1514 * 8.0 / (bits_per_s * (duration_s - warm_up_s)), sum * sum / (flows * squares), of_first / sum,
                     percentile(0.5), percentile(0.99), dropped / std::max(1.0, (double)offered)};
    sinks.clear();
    Simulator::Destroy();
    return result;
}
}
"""


def groups(key):
    """Flows, congestion control and round trip in s of each group, as `weir` divides the flows."""
    mix = [word.split("*") if "*" in word else ("1", word) for word in key["mix"].split("+")]
    rtts = [float(rtt) / 1e3 for rtt in key["rtt_ms"].split("+")]
    part = int(key["flows"]) // (sum(int(weight) for weight, _ in mix) * len(rtts))
    return [(int(weight) * part, cc, rtt) for weight, cc in mix for rtt in rtts]


def in_ns3(key, seeds):
    """The figures of a point, a list with one value a seed for each."""
    import cppyy
    from ns import ns  # noqa: F401 - loads the libraries

    if not hasattr(in_ns3, "defined"):
        cppyy.cppdef(MODEL)
        in_ns3.defined = True
    ccs, rtts = [], []
    for flows, cc, rtt in groups(key):
        ccs += [CONTROLS[cc]] * flows
        rtts += [rtt] * flows
    rate, first = float(key["rate"]), groups(key)[0][0]
    buffer = round(float(key["buffer_bdp"]) * max(rtts) * rate / 8)
    times = float(key["duration_s"]), float(key["warm_up_s"])
    runs = [
        cppyy.gbl.grid.run(ccs, rtts, first, QUEUES[key["queue"]], rate, buffer, *times, seed)
        for seed in range(1, seeds + 1)
    ]
    names = ("utilisation", "jain", "first_share", "p50_s", "p99_s", "loss")
    return {figure: [getattr(run, name) for run in runs] for figure, name in zip(FIGURES, names)}


def middle(values):
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def read_run(path):
    """Points of a run that ns-3 has as well: key, bed, figures."""
    points = []
    with open(path) as file:
        run = json.load(file)
    for point in run["points"]:
        settings = dict(point["point"]["settings"])
        procedure = point["point"]["result"]["procedures"][0]
        settings["warm_up_s"] = dict(procedure["parameters"])["warm-up"].split()[0]
        key = {name: settings[name] for name in KEY}
        unusual = {"ecn", "per_sqrt_flows", "rate_changes"} & settings.keys()
        if key["queue"] in QUEUES and not unusual and all(cc in CONTROLS for _, cc, _ in groups(key)):
            figures = {figure["name"]: figure["values"] for figure in procedure["figures"]}
            points.append((key, settings.get("bed", "simulated"), figures))
    return points


def read_rows(path):
    rows = {}
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                words = line.split()
                if line.startswith("#"):
                    continue
                values = [list(map(float, word.split(","))) for word in words[len(KEY) :]]
                rows[tuple(words[: len(KEY)])] = dict(zip(FIGURES, values))
    return rows


def add_row(path, key, figures):
    is_new = not os.path.exists(path)
    with open(path, "a") as file:
        if is_new:
            print("# ns-3 3.44: a value a seed.", *KEY, *(name.replace(" ", "_") for name in FIGURES), file=file)
        lists = (",".join(f"{value:.6g}" for value in figures[name]) for name in FIGURES)
        print(*key.values(), *lists, file=file)


def text(name, values):
    decimals, factor = FIGURES[name]
    low, mid, high = (f"{value * factor:.{decimals}f}" for value in (min(values), middle(values), max(values)))
    return mid if low == high else f"{mid} ({low} to {high})"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: grid.py RUN.json ROWS.txt")
    points, rows = read_run(sys.argv[1]), read_rows(sys.argv[2])
    for key, _, figures in points:
        if tuple(key.values()) not in rows:
            rows[tuple(key.values())] = found = in_ns3(key, len(figures["utilisation"]))
            add_row(sys.argv[2], key, found)
    apart = {name: {} for name in FIGURES}
    beds = sorted({bed for _, bed, _ in points}, reverse=True)
    for name in FIGURES:
        unit = ", ms" if FIGURES[name][1] == 1e3 else ""
        print(f"\n{name}{unit}\n\n| mix | queue | buffer, BDP | flows | {' | '.join(beds)} | ns-3 |\n|{'---|' * (5 + len(beds))}")
        for key in {tuple(key.values()): key for key, _, _ in points}.values():
            theirs = rows[tuple(key.values())][name]
            ours = {bed: figures.get(name) for own, bed, figures in points if own == key}
            cells = [text(name, ours[bed]) if ours.get(bed) else "" for bed in beds]
            label = [key["mix"], key["queue"], key["buffer_bdp"], key["flows"]]
            print("|", " | ".join(label + cells + [text(name, theirs)]), "|")
            for bed in beds:
                if ours.get(bed):
                    difference = middle(theirs) - middle(ours[bed])
                    apart[name].setdefault(bed, []).append((abs(difference), difference, " ".join(label)))
    print()
    for name, of_beds in apart.items():
        decimals, factor = FIGURES[name]
        for bed, all_of_it in of_beds.items():
            mean = sum(size for size, _, _ in all_of_it) / len(all_of_it)
            _, largest, where = max(all_of_it)
            print(
                f"{name}: ns-3 differs from {bed} by {mean * factor:.{decimals}f} on average and "
                f"{largest * factor:+.{decimals}f} at most ({where}), at {len(all_of_it)} points."
            )


if __name__ == "__main__":
    main()
