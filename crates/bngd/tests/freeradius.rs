//! A RADIUS server of others: FreeRADIUS with a configuration of the test, in the namespace of the program, as a user without rights.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use weir_linux::namespace::Namespace;
use weir_testkit::{Folder, PATIENCE, Watch};

/// Where Message-Authenticator stands in its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authenticator {
    /// Nowhere, as Debian's configuration has it.
    None,
    First,
    Last,
}

/// How a server is configured.
#[derive(Debug, Clone)]
pub(crate) struct Setup<'a> {
    /// Name of its folder.
    pub(crate) name: &'a str,
    /// Its UDP port for authentication; accounting has the one 100 above it.
    pub(crate) port: u16,
    pub(crate) secret: &'a str,
    /// Where Message-Authenticator stands in answers.
    pub(crate) authenticator: Authenticator,
    /// Drops requests without Message-Authenticator.
    pub(crate) requires_authenticator: bool,
    /// The file `users`.
    pub(crate) users: &'a str,
    /// Where its logins and accounting are, beside the file.
    pub(crate) database: Option<Database<'a>>,
}

/// A database of PostgreSQL with FreeRADIUS's tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Database<'a> {
    /// The folder of the server's socket.
    pub(crate) socket: &'a Path,
    pub(crate) name: &'a str,
}

impl<'a> Setup<'a> {
    pub(crate) fn new(name: &'a str, port: u16, users: &'a str) -> Setup<'a> {
        let (authenticator, requires_authenticator) = (Authenticator::First, true);
        let secret = "of both sides";
        Setup { name, port, secret, authenticator, requires_authenticator, users, database: None }
    }

    fn config(&self, folder: &str) -> String {
        let update = "update reply {\n&Message-Authenticator := 0x00\n}";
        let [first, last] = [Authenticator::First, Authenticator::Last]
            .map(|place| if self.authenticator == place { update } else { "" });
        let requires = if self.requires_authenticator { "yes" } else { "no" };
        let [module, logins, accounting] =
            if self.database.is_some() { [SQL, SQL_LOGINS, "sql"] } else { [""; 3] };
        let socket = self.database.map_or_else(String::new, |of| of.socket.display().to_string());
        CONFIG
            .replace("@SQL@", module)
            .replace("@LOGINS@", logins)
            .replace("@ACCOUNTING@", accounting)
            .replace("@SOCKET@", &socket)
            .replace("@DATABASE@", self.database.map_or("", |of| of.name))
            .replace("@D@", folder)
            .replace("@PORT@", &self.port.to_string())
            .replace("@ACCT@", &(self.port + 100).to_string())
            .replace("@SECRET@", self.secret)
            .replace("@REQUIRES@", requires)
            .replace("@FIRST@", first)
            .replace("@LAST@", last)
    }
}

/// The user and group that it runs as.
const NOBODY: u32 = 65_534;

/// Two statements on one line are an error, and so is a module's name on the line of a brace.
const CONFIG: &str = "\
prefix = /usr
localstatedir = @D@
libdir = /usr/lib/freeradius
logdir = @D@
run_dir = @D@
pidfile = @D@/pid
max_requests = 65536
cleanup_delay = 2
log {
 destination = stdout
 auth = yes
}
security {
 status_server = yes
 reject_delay = 0
}
thread pool {
 start_servers = 1
 max_servers = 1
 min_spare_servers = 1
 max_spare_servers = 1
}
client nas {
 ipaddr = 127.0.0.0/8
 secret = \"@SECRET@\"
 require_message_authenticator = @REQUIRES@
}
modules {
 pap {
 }
 chap {
 }
 mschap {
 }
 expr {
 }
 files {
  usersfile = @D@/users
 }
 detail {
  filename = @D@/acct
  header = \"%t\"
 }
 attr_filter attr_filter.access_reject {
  key = \"%{User-Name}\"
  filename = @D@/access_reject
 }
 @SQL@
}
server default {
 listen {
  type = auth
  ipaddr = 127.0.0.1
  port = @PORT@
 }
 listen {
  type = acct
  ipaddr = 127.0.0.1
  port = @ACCT@
 }
 preacct {
  update request {
   &Acct-Unique-Session-Id := \"%{md5:%{User-Name},%{Acct-Session-Id},%{NAS-IP-Address}}\"
  }
 }
 accounting {
  detail
  @ACCOUNTING@
 }
 authorize {
  @FIRST@
  chap
  mschap
  files
  @LOGINS@
  pap
 }
 authenticate {
  pap
  chap
  mschap
 }
 post-auth {
  @LAST@
  Post-Auth-Type REJECT {
   update reply {
    &Reply-Message := \"call 555\"
   }
   attr_filter.access_reject
  }
 }
}
";
/// Tables and queries of Debian's package.
pub(crate) const SQL_FOLDER: &str = "/etc/freeradius/3.0/mods-config/sql/main/postgresql";
const SQL: &str = "\
sql {
  dialect = \"postgresql\"
  driver = \"rlm_sql_postgresql\"
  server = \"@SOCKET@\"
  login = \"owner\"
  radius_db = \"@DATABASE@\"
  acct_table1 = \"radacct\"
  acct_table2 = \"radacct\"
  postauth_table = \"radpostauth\"
  authcheck_table = \"radcheck\"
  groupcheck_table = \"radgroupcheck\"
  authreply_table = \"radreply\"
  groupreply_table = \"radgroupreply\"
  usergroup_table = \"radusergroup\"
  client_table = \"nas\"
  group_attribute = \"SQL-Group\"
  read_clients = no
  delete_stale_sessions = yes
  pool {
   start = 1
   min = 1
   max = 4
   spare = 1
   uses = 0
   retry_delay = 1
   lifetime = 0
   idle_timeout = 60
  }
  $INCLUDE @D@/queries.conf
 }
 always handled {
  rcode = handled
 }";
/// By default a login is rejected when the database fails, which ends a brown-out: without an answer it lasts.
const SQL_LOGINS: &str = "\
sql {
   fail = 1
  }
  if (fail) {
   update control {
    &Response-Packet-Type := Do-Not-Respond
   }
   handled
  }";
const REJECT: &str = "DEFAULT\n\tReply-Message =* ANY,\n\tMS-CHAP-Error =* ANY,\n\tMessage-Authenticator =* ANY,\n\tProxy-State =* ANY\n";

/// A server that ends with this.
pub(crate) struct FreeRadius {
    child: Child,
    log: PathBuf,
    _watch: Watch,
}

/// Is it installed? If not, says so.
pub(crate) fn is_installed() -> bool {
    let found = Path::new("/usr/sbin/freeradius").exists();
    if !found {
        println!("skipped: freeradius is not installed");
    }
    found
}

/// A program that runs without rights, and ends with this one.
pub(crate) fn as_nobody(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args([&*format!("--reuid={NOBODY}"), &*format!("--regid={NOBODY}")]);
    command.args(["--clear-groups", "--pdeathsig=KILL", program]);
    command
}

impl FreeRadius {
    /// Starts it; it answers when this returns.
    pub(crate) fn start(namespace: &Namespace, folder: &Folder, setup: &Setup<'_>) -> FreeRadius {
        let own = folder.join(setup.name);
        let _ = std::fs::remove_dir_all(&own);
        std::fs::create_dir(&own).expect("it is new");
        let shown = own.display().to_string();
        let files = [
            ("radiusd.conf", setup.config(&shown)),
            ("users", setup.users.to_string()),
            ("access_reject", REJECT.to_string()),
            ("dictionary", "$INCLUDE /usr/share/freeradius/dictionary\n".to_string()),
        ];
        for (name, text) in files {
            std::fs::write(own.join(name), text).expect("it is ours");
        }
        if setup.database.is_some() {
            let queries = Path::new(SQL_FOLDER).join("queries.conf");
            std::fs::copy(queries, own.join("queries.conf")).expect("freeradius-postgresql is installed");
            std::os::unix::fs::chown(own.join("queries.conf"), Some(NOBODY), Some(NOBODY))
                .expect("it is ours");
        }
        // It refuses a folder that everyone may write to.
        std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).expect("it is ours");
        let log = own.join("log");
        let file = std::fs::File::create(&log).expect("it is ours");
        let mut command = as_nobody("/usr/sbin/freeradius");
        command.args(["-f", "-d"]).arg(&own).stdin(Stdio::null());
        command.stdout(file.try_clone().expect("a descriptor")).stderr(file);
        let child = namespace.run(|| command.spawn()).expect("setpriv starts");
        let mut server = FreeRadius { _watch: Watch::new(&child), child, log };
        server.until("Ready to process requests", 1);
        server
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How often it has logged a text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// Returns when it has logged a text as often.
    pub(crate) fn until(&mut self, text: &str, times: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.count(text) < times {
            let ended = self.child.try_wait().expect("it is a child");
            let mut why = String::new();
            let _ = write!(why, "{ended:?}: {}", self.log());
            assert!(ended.is_none() && Instant::now() < deadline, "no `{text}`: {why}");
            std::thread::yield_now();
        }
    }
}

impl Drop for FreeRadius {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
