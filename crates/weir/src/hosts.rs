//! `weir run PLAN --on hosts.toml`: a plan on other hosts.
//!
//! ```text
//!  hosts.toml > connect each, copy weir where it is missing > jobs (shards, or the plan for each host)
//!    worker 1: job > job > ...   } records > file of this machine > one run, or a table of kernels
//!    worker 2: job > lost: its job goes back, the others go on
//! ```
//! Files:
//! - `jobs.rs`: the jobs that are not done, and the host of each; `crew.rs`: the connections; `worker.rs`: the side of the agent
//! - `bed.rs`: tester, remote tester and device as options of a plan
//! - `measure.rs`: from the file of hosts to the records

pub(crate) mod bed;
pub(crate) mod crew;
pub(crate) mod jobs;
pub(crate) mod measure;
pub(crate) mod worker;
