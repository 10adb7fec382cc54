//! Which queue stands in front of a link.

use serde_json::Value;
use weir_config::did_you_mean;
use weir_queue::{Bottleneck, Config};

/// A queue by name, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Aqm {
    /// As it was written.
    pub text: String,
    /// What it means.
    pub config: Config,
}

impl Aqm {
    /// Reads a queue's name, and settings of it by their names in records: `codel:target_s=0.01`.
    ///
    /// # Errors
    /// No such queue, no such setting, or one that makes no sense; the message says what to write.
    pub fn read(text: &str) -> Result<Aqm, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let known = Config::named(name).ok_or_else(|| {
            let names: Vec<&str> = Config::catalogue().into_iter().map(|(name, _)| name).collect();
            format!("`{name}` is no queue: {}", did_you_mean(name, &names))
        })?;
        let mut fields = serde_json::to_value(known).map_err(|error| error.to_string())?;
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let (field, value) =
                setting.split_once('=').ok_or_else(|| format!("`{setting}`: write it as NAME=VALUE"))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.into()));
            let object = fields.as_object_mut().ok_or("a queue without settings")?;
            if field == "kind" || !object.contains_key(field) {
                let names: Vec<&str> =
                    object.keys().map(String::as_str).filter(|name| *name != "kind").collect();
                return Err(format!("`{field}` is no setting of {name}: {}", did_you_mean(field, &names)));
            }
            object.insert(field.into(), value);
        }
        let config: Config = serde_json::from_value(fields).map_err(|error| format!("{name}: {error}"))?;
        // A setting that makes no sense is found by building it.
        let at = Bottleneck { limit_bytes: 1 << 20, bits_per_s: 1_000_000, seed: 0 };
        config.build::<()>(&at).map_err(|error| error.to_string())?;
        Ok(Aqm { text: text.into(), config })
    }
}
