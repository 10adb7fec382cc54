//! The archive at a PostgreSQL of its own. `./test services` runs these: they need Debian's package `postgresql`.

mod services {
    mod contract;
    mod grafana;
    mod kills;
    mod push;
    mod retention;
    mod rights;
    mod serve;
    mod size;
    mod tls;

    // What they share.
    mod bed;
}
