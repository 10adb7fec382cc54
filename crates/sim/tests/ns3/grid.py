#!/usr/bin/env python3
"""A small grid of flows at a bottleneck in ns-3, as a third opinion beside the simulator and the kernel's TCP.

    python3 -m venv /tmp/ns3 && /tmp/ns3/bin/pip install ns3==3.44.post0
    /tmp/ns3/bin/python crates/sim/tests/ns3/grid.py > crates/sim/tests/ns3/grid.txt

`crates/sim/tests/ns3.rs` runs the same grid in our simulator and compares it with grid.txt. ns-3 is GPL-2.0: it is run, and nothing of
it is copied. What is made equal: packets of 1500 bytes and as many of them in a second and in the buffer, round trips, RFC 6928's
initial window, SACK, a smallest RTO of 200 ms, delayed ACKs, no ECN, the same lines of time. What is not: ns-3's senders have neither RACK nor
a tail loss probe, and its CUBIC starts with HyStart.
"""
import sys

from ns import ns  # noqa: F401 - loads the libraries
import cppyy

cppyy.cppdef(
    r"""
namespace grid {
using namespace ns3;

struct Result { double utilisation, jain, p50_ms, p99_ms; };

static std::vector<double> sojourns_ms;
static double warm_up;
static uint64_t on_link;

void sojourn(Time time) {
    if (Simulator::Now().GetSeconds() >= warm_up) sojourns_ms.push_back(time.GetSeconds() * 1e3);
}
void leaves(Ptr<const Packet> packet) {
    if (Simulator::Now().GetSeconds() >= warm_up) on_link += 1514;
}

double percentile(std::vector<double> &sorted, double p) {
    if (sorted.empty()) return 0;
    return sorted[std::min(sorted.size() - 1, (size_t)(p * sorted.size()))];
}

static std::vector<Ptr<PacketSink>> sinks;
static std::vector<uint64_t> before;
void warm() { for (size_t i = 0; i < sinks.size(); i++) before[i] = sinks[i]->GetTotalRx(); }

Result run(std::string cc, std::string queue, uint32_t flows, uint64_t bits_per_s, double rtt_s, double bdp,
           double duration_s, double warm_up_s, uint32_t seed) {
    sojourns_ms.clear(); on_link = 0; warm_up = warm_up_s; sinks.clear(); before.assign(flows, 0);
    RngSeedManager::SetSeed(1); RngSeedManager::SetRun(seed);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName(cc)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 23));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 23));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    // As long as the smallest RTO, it would have each single segment sent twice.
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::CoDelQueueDisc::MinBytes", UintegerValue(1500));
    Config::SetDefault("ns3::PieQueueDisc::QueueDelayReference", TimeValue(MilliSeconds(15)));
    Config::SetDefault("ns3::PieQueueDisc::Tupdate", TimeValue(MilliSeconds(15)));
    Config::SetDefault("ns3::PieQueueDisc::MaxBurstAllowance", TimeValue(MilliSeconds(150)));
    Config::SetDefault("ns3::PieQueueDisc::MeanPktSize", UintegerValue(1500));
    Config::SetDefault("ns3::PieQueueDisc::A", DoubleValue(0.125));
    Config::SetDefault("ns3::PieQueueDisc::B", DoubleValue(1.25));

    NodeContainer routers, senders, receivers;
    routers.Create(2); senders.Create(flows); receivers.Create(flows);
    InternetStackHelper stack; stack.InstallAll();

    // As many packets in a second as frames of 1514 bytes have: ns-3's have two bytes of PPP in front.
    PointToPointHelper narrow, wide;
    narrow.SetDeviceAttribute("DataRate", DataRateValue(DataRate((uint64_t)(bits_per_s * (1502.0 / 1514.0)))));
    narrow.SetChannelAttribute("Delay", TimeValue(Seconds(rtt_s / 2)));
    narrow.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
    wide.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    wide.SetChannelAttribute("Delay", TimeValue(NanoSeconds(100)));
    wide.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000p"));
    NetDeviceContainer link = narrow.Install(routers.Get(0), routers.Get(1));

    TrafficControlHelper control, none;
    uint32_t packets = std::max(1.0, std::floor(bits_per_s / 8.0 * rtt_s * bdp / 1514.0));
    control.SetRootQueueDisc(queue, "MaxSize", QueueSizeValue(QueueSize(std::to_string(packets) + "p")));
    QueueDiscContainer discs = control.Install(link.Get(0));
    discs.Get(0)->TraceConnectWithoutContext("SojournTime", MakeCallback(&sojourn));
    link.Get(0)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&leaves));

    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.252"); addresses.Assign(link); addresses.NewNetwork();
    Ptr<UniformRandomVariable> random = CreateObject<UniformRandomVariable>();
    for (uint32_t i = 0; i < flows; i++) {
        NetDeviceContainer in = wide.Install(senders.Get(i), routers.Get(0));
        NetDeviceContainer out = wide.Install(routers.Get(1), receivers.Get(i));
        addresses.Assign(in); addresses.NewNetwork();
        Ipv4InterfaceContainer ends = addresses.Assign(out); addresses.NewNetwork();
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
        ApplicationContainer there = sink.Install(receivers.Get(i));
        sinks.push_back(DynamicCast<PacketSink>(there.Get(0)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(ends.GetAddress(1), 9));
        bulk.SetAttribute("SendSize", UintegerValue(1448));
        ApplicationContainer here = bulk.Install(senders.Get(i));
        // Within a round trip.
        here.Start(Seconds(random->GetValue(0, rtt_s)));
    }
    // A host has no queue of its own: the wide links take all.
    for (uint32_t i = 0; i < flows; i++) {
        none.Uninstall(senders.Get(i)->GetDevice(1));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    Simulator::Schedule(Seconds(warm_up_s), &warm);
    Simulator::Stop(Seconds(duration_s));
    Simulator::Run();
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < flows; i++) {
        double bytes = sinks[i]->GetTotalRx() - before[i];
        sum += bytes; squares += bytes * bytes;
    }
    std::sort(sojourns_ms.begin(), sojourns_ms.end());
    Result result = {on_link * 8.0 / (bits_per_s * (duration_s - warm_up_s)), sum * sum / (flows * squares),
                     percentile(sojourns_ms, 0.5), percentile(sojourns_ms, 0.99)};
    sinks.clear();
    Simulator::Destroy();
    return result;
}
}
"""
)

RATE, RTT_S, DURATION_S, WARM_UP_S, SEEDS = 20_000_000, 0.02, 30.0, 10.0, 3
CONTROLS = [("reno", "ns3::TcpLinuxReno"), ("cubic", "ns3::TcpCubic"), ("bbr1", "ns3::TcpBbr")]
QUEUES = [
    ("fifo", "ns3::FifoQueueDisc"),
    ("codel", "ns3::CoDelQueueDisc"),
    ("fq-codel", "ns3::FqCoDelQueueDisc"),
    ("pie", "ns3::PieQueueDisc"),
]


def main():
    print(f"# ns-3 3.44, {RATE} bit/s, {RTT_S} s, {DURATION_S} s of which {WARM_UP_S} s do not count, median of {SEEDS} runs")
    print("# cc queue flows buffer_bdp utilisation jain sojourn_p50_ms sojourn_p99_ms")
    chosen = sys.argv[1:]
    for cc, control in CONTROLS:
        for queue, disc in QUEUES:
            for flows in (2, 10):
                for bdp in (1, 4):
                    if chosen and f"{cc}/{queue}/{flows}/{bdp}" not in chosen:
                        continue
                    runs = [
                        cppyy.gbl.grid.run(control, disc, flows, RATE, RTT_S, bdp, DURATION_S, WARM_UP_S, seed)
                        for seed in range(1, SEEDS + 1)
                    ]
                    middle = [
                        sorted(getattr(run, name) for run in runs)[SEEDS // 2]
                        for name in ("utilisation", "jain", "p50_ms", "p99_ms")
                    ]
                    print(cc, queue, flows, bdp, *(f"{value:.4f}" for value in middle), flush=True)


main()
