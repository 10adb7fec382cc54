//! What a reader in a browser asks: pages of runs that match a filter, and the values that a filter may have.

use serde::{Deserialize, Serialize};
use tokio_postgres::types::ToSql;
use weir_record::record::RunSummary;
use weir_record::store::StoreError;

use crate::archive::PostgresArchive;
use crate::table::RUNS;

/// Runs of a page.
pub(crate) const PAGE: usize = 100;

/// Which runs; an empty field asks for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Filter {
    pub(crate) plan: String,
    pub(crate) host: String,
    pub(crate) kernel: String,
    pub(crate) version: String,
    /// Only runs with lower numbers than this: the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<i64>,
}

impl Filter {
    /// Columns of `weir.runs`, and the values that they must have.
    pub(crate) fn columns(&self) -> [(&'static str, &String); 4] {
        [("plan", &self.plan), ("host", &self.host), ("kernel", &self.kernel), ("version", &self.version)]
    }
}

/// A run of a page.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) run: RunSummary,
    pub(crate) host: String,
    pub(crate) kernel: String,
    pub(crate) cpu: String,
}

impl PostgresArchive {
    /// The newest runs of a filter, newest first, and whether there are more.
    pub(crate) fn find(&self, filter: &Filter) -> Result<(Vec<Listed>, bool), StoreError> {
        let before = filter.before.unwrap_or(i64::MAX);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&before];
        let mut wanted = String::new();
        for (column, value) in filter.columns().into_iter().filter(|(_, value)| !value.is_empty()) {
            values.push(value);
            wanted += &format!(" AND {column} = ${}", values.len());
        }
        let sql = format!(
            "SELECT id, uuid::text, plan, question, started, finished, state, version, '{{}}', host, coalesce(kernel, ''), \
             coalesce(cpu, '') FROM weir.runs WHERE id < $1{wanted} ORDER BY id DESC LIMIT {}",
            PAGE + 1
        );
        let rows = self.rows(&sql, &values)?;
        let mut found = Vec::new();
        for row in rows.iter().take(PAGE) {
            let text = |i| row.try_get::<_, String>(i).map_err(|error| self.refused(&error));
            found.push(Listed {
                host: text(9)?,
                kernel: text(10)?,
                cpu: text(11)?,
                run: self.record(&RUNS, row, 8)?,
            });
        }
        Ok((found, rows.len() > PAGE))
    }

    /// All values of a column of the runs, each by one look into the index of the column: the next one after the value before it.
    pub(crate) fn values(&self, column: &str) -> Result<Vec<String>, StoreError> {
        let first = format!(
            "SELECT {column} AS value FROM weir.runs WHERE {column} IS NOT NULL ORDER BY {column} LIMIT 1"
        );
        let next = format!("SELECT {column} FROM weir.runs WHERE {column} > value ORDER BY {column} LIMIT 1");
        let sql = format!(
            "WITH RECURSIVE found AS (({first}) UNION ALL SELECT ({next}) FROM found WHERE value IS NOT NULL)
             SELECT value FROM found WHERE value IS NOT NULL"
        );
        let rows = self.rows(&sql, &[])?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| self.refused(&error))).collect()
    }
}
