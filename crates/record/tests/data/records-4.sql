-- Records as weir wrote them in format 4: a run without test frames, one with, and one that was interrupted.
PRAGMA application_id = 2003134834;
PRAGMA user_version = 4;
PRAGMA foreign_keys = OFF;
BEGIN TRANSACTION;
CREATE TABLE "points" (
        id               INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id           INTEGER NOT NULL REFERENCES runs,
        idx              INTEGER NOT NULL,
        dut              TEXT NOT NULL,
        frame            TEXT,
        frame_bytes_mean REAL,
        line_fps         REAL,
        result           TEXT,
        rest             TEXT NOT NULL,
        UNIQUE (run_id, idx),
        CHECK ((frame IS NULL) = (frame_bytes_mean IS NULL))
    ) STRICT;
INSERT INTO "points" VALUES(1,1,0,'sleep',NULL,NULL,NULL,'{"search":"rounds","goals":[],"procedures":[{"procedure":"sleep","cites":"","parameters":[["rounds","2"]],"figures":[{"name":"lateness","unit":"s","better":"lower","statistic":"median","value":0.00006,"values":[0.00005,0.00007],"interval":null}],"irregular":[]}]}','{"cpus":[],"cpus_shared":[],"notes":[],"settings":[["ms","1"]]}');
INSERT INTO "points" VALUES(2,1,1,'sleep',NULL,NULL,NULL,'{"search":"rounds","goals":[],"procedures":[{"procedure":"sleep","cites":"","parameters":[["rounds","2"]],"figures":[{"name":"lateness","unit":"s","better":"lower","statistic":"median","value":0.00006,"values":[0.00005,0.00007],"interval":null}],"irregular":[]}]}','{"cpus":[],"cpus_shared":[],"notes":[],"settings":[["ms","2"]]}');
INSERT INTO "points" VALUES(3,2,0,'kernel-forward','64',64.0,29761904.76,'{"search":"rfc2544","goals":[{"goal":"NDR","parameters":[["loss ratio","0 %"]],"repetitions":[{"fps":100000.0,"lower_fps":100000.0,"upper_fps":100500.0,"irregular":null,"trials":2,"trial_s":2.0}],"fps_median":100000.0,"fps_interval":null}]}','{"cpus":[1],"cpus_shared":[],"notes":[],"settings":[["dut","kernel-forward"],["frame_bytes","64"]]}');
INSERT INTO "points" VALUES(4,3,0,'kernel-forward','64',64.0,29761904.76,NULL,'{"cpus":[1],"cpus_shared":[],"notes":[],"settings":[["dut","kernel-forward"],["frame_bytes","64"]]}');
CREATE TABLE runs (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        plan     TEXT NOT NULL,
        question TEXT NOT NULL,
        started  TEXT NOT NULL,
        finished TEXT,
        state    TEXT NOT NULL,
        version  TEXT NOT NULL,
        rest     TEXT NOT NULL
    ) STRICT;
INSERT INTO "runs" VALUES(1,'sleep','What did format 4 keep?','2026-03-01T10:00:00Z','2026-03-01T10:10:00Z','complete','0.1.0','{"deviations":[],"machine":{"cpu":"Example 9000","cpus":2,"facts":[["virtualisation","kvm"]],"kernel":"6.18","memory_bytes":1073741824,"os":"Debian"},"plan_toml":"question = \"What did format 4 keep?\"\n","process":"4711-1","seed":18446744073709551615,"tester":{"cpus":[0],"generator":"xdp-live-frames","limits":[],"receiver":"xdp"},"uuid":"6f6f9dc3-8d55-4b6e-9a0c-2c9f6f1c0a01"}');
INSERT INTO "runs" VALUES(2,'quick','What did format 4 keep?','2026-03-02T10:00:00Z','2026-03-02T10:10:00Z','complete','0.1.0','{"deviations":[],"machine":{"cpu":"Example 9000","cpus":2,"facts":[["virtualisation","kvm"]],"kernel":"6.18","memory_bytes":1073741824,"os":"Debian"},"plan_toml":"question = \"What did format 4 keep?\"\n","process":"4711-1","seed":18446744073709551615,"tester":{"cpus":[0],"generator":"xdp-live-frames","limits":[],"receiver":"xdp"},"uuid":"6f6f9dc3-8d55-4b6e-9a0c-2c9f6f1c0a02"}');
INSERT INTO "runs" VALUES(3,'quick','What did format 4 keep?','2026-03-03T10:00:00Z',NULL,'interrupted','0.1.0','{"deviations":[],"machine":{"cpu":"Example 9000","cpus":2,"facts":[["virtualisation","kvm"]],"kernel":"6.18","memory_bytes":1073741824,"os":"Debian"},"plan_toml":"question = \"What did format 4 keep?\"\n","process":"4711-1","seed":18446744073709551615,"tester":{"cpus":[0],"generator":"xdp-live-frames","limits":[],"receiver":"xdp"},"uuid":"6f6f9dc3-8d55-4b6e-9a0c-2c9f6f1c0a03"}');
CREATE TABLE "trials" (
        id          INTEGER PRIMARY KEY AUTOINCREMENT,
        point_id    INTEGER NOT NULL REFERENCES points,
        idx         INTEGER NOT NULL,
        purpose     TEXT NOT NULL,
        started     TEXT NOT NULL,
        duration_s  REAL NOT NULL,
        offered_fps REAL,
        offered     INTEGER,
        sent        INTEGER,
        received    INTEGER,
        lost        INTEGER,
        unexplained INTEGER,
        verdict     TEXT NOT NULL,
        rest        TEXT NOT NULL,
        UNIQUE (point_id, idx),
        CHECK ((offered_fps IS NULL) + (offered IS NULL) + (sent IS NULL) + (received IS NULL) + (lost IS NULL)
            + (unexplained IS NULL) IN (0, 6))
    ) STRICT;
INSERT INTO "trials" VALUES(1,1,0,'procedure','2026-03-01T10:00:00.000Z',1.0,NULL,NULL,NULL,NULL,NULL,NULL,'valid','{"cost":{"box_counters":[],"conntrack_entries":null,"cpus":[],"cycles_per_frame":null,"dut_cpu_ns":null,"memory_bytes":[],"ns_per_frame":null},"drop_counters":[],"key":"round 0","noise":{"dut_wait":0.0,"handover_ns":null,"late_max_ns":0,"late_p999_ns":0,"rate_error":0.0,"steal":0.0,"tester_wait":0.0},"overhead_s":0.125,"reasons":[],"streams":[]}');
INSERT INTO "trials" VALUES(2,1,1,'procedure','2026-03-01T10:00:01.000Z',1.0,NULL,NULL,NULL,NULL,NULL,NULL,'valid','{"cost":{"box_counters":[],"conntrack_entries":null,"cpus":[],"cycles_per_frame":null,"dut_cpu_ns":null,"memory_bytes":[],"ns_per_frame":null},"drop_counters":[],"key":"round 1","noise":{"dut_wait":0.0,"handover_ns":null,"late_max_ns":0,"late_p999_ns":0,"rate_error":0.0,"steal":0.0,"tester_wait":0.0},"overhead_s":0.125,"reasons":[],"streams":[]}');
INSERT INTO "trials" VALUES(3,2,0,'procedure','2026-03-01T10:00:00.000Z',1.0,NULL,NULL,NULL,NULL,NULL,NULL,'valid','{"cost":{"box_counters":[],"conntrack_entries":null,"cpus":[],"cycles_per_frame":null,"dut_cpu_ns":null,"memory_bytes":[],"ns_per_frame":null},"drop_counters":[],"key":"round 0","noise":{"dut_wait":0.0,"handover_ns":null,"late_max_ns":0,"late_p999_ns":0,"rate_error":0.0,"steal":0.0,"tester_wait":0.0},"overhead_s":0.125,"reasons":[],"streams":[]}');
INSERT INTO "trials" VALUES(4,2,1,'procedure','2026-03-01T10:00:01.000Z',1.0,NULL,NULL,NULL,NULL,NULL,NULL,'valid','{"cost":{"box_counters":[],"conntrack_entries":null,"cpus":[],"cycles_per_frame":null,"dut_cpu_ns":null,"memory_bytes":[],"ns_per_frame":null},"drop_counters":[],"key":"round 1","noise":{"dut_wait":0.0,"handover_ns":null,"late_max_ns":0,"late_p999_ns":0,"rate_error":0.0,"steal":0.0,"tester_wait":0.0},"overhead_s":0.125,"reasons":[],"streams":[]}');
INSERT INTO "trials" VALUES(5,3,0,'warm-up','2026-03-01T10:00:00.000Z',1.0,100000.0,100000,100000,100000,0,0,'valid','{"cost":{"box_counters":[],"conntrack_entries":null,"cpus":[],"cycles_per_frame":null,"dut_cpu_ns":null,"memory_bytes":[],"ns_per_frame":null},"drop_counters":[{"frames":0,"name":"dut ring full","owner":"dut","source":"t0 tx_queue_0_xdp_xmit_errors"}],"noise":{"dut_wait":0.0,"handover_ns":null,"late_max_ns":0,"late_p999_ns":0,"rate_error":0.0,"steal":0.0,"tester_wait":0.0},"overhead_s":0.125,"reasons":[],"streams":[]}');
INSERT INTO "trials" VALUES(6,3,1,'search','2026-03-01T10:00:01.000Z',1.0,100000.0,100000,100000,100000,0,0,'valid','{"cost":{"box_counters":[],"conntrack_entries":null,"cpus":[],"cycles_per_frame":null,"dut_cpu_ns":null,"memory_bytes":[],"ns_per_frame":null},"drop_counters":[{"frames":0,"name":"dut ring full","owner":"dut","source":"t0 tx_queue_0_xdp_xmit_errors"}],"noise":{"dut_wait":0.0,"handover_ns":null,"late_max_ns":0,"late_p999_ns":0,"rate_error":0.0,"steal":0.0,"tester_wait":0.0},"overhead_s":0.125,"reasons":[],"streams":[]}');
INSERT INTO "trials" VALUES(7,3,2,'search','2026-03-01T10:00:02.000Z',1.0,100000.0,100000,100000,99993,7,0,'valid','{"cost":{"box_counters":[],"conntrack_entries":null,"cpus":[],"cycles_per_frame":null,"dut_cpu_ns":null,"memory_bytes":[],"ns_per_frame":null},"drop_counters":[{"frames":7,"name":"dut ring full","owner":"dut","source":"t0 tx_queue_0_xdp_xmit_errors"}],"noise":{"dut_wait":0.0,"handover_ns":null,"late_max_ns":0,"late_p999_ns":0,"rate_error":0.0,"steal":0.0,"tester_wait":0.0},"overhead_s":0.125,"reasons":[],"streams":[]}');
INSERT INTO "trials" VALUES(8,4,0,'warm-up','2026-03-01T10:00:00.000Z',1.0,100000.0,100000,100000,100000,0,0,'valid','{"cost":{"box_counters":[],"conntrack_entries":null,"cpus":[],"cycles_per_frame":null,"dut_cpu_ns":null,"memory_bytes":[],"ns_per_frame":null},"drop_counters":[{"frames":0,"name":"dut ring full","owner":"dut","source":"t0 tx_queue_0_xdp_xmit_errors"}],"noise":{"dut_wait":0.0,"handover_ns":null,"late_max_ns":0,"late_p999_ns":0,"rate_error":0.0,"steal":0.0,"tester_wait":0.0},"overhead_s":0.125,"reasons":[],"streams":[]}');
COMMIT;
