//! What an object of a configuration was, and what it is.

/// `None`: there was or is none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Was<T> {
    pub(crate) old: Option<T>,
    pub(crate) new: Option<T>,
}

impl<T: PartialEq> Was<T> {
    /// What undoes the change.
    pub(crate) fn inverse(self) -> Was<T> {
        Was { old: self.new, new: self.old }
    }

    /// Whether nothing changes.
    pub(crate) fn is_same(&self) -> bool {
        self.old == self.new
    }

    /// The change, if it is one.
    pub(crate) fn if_any(self) -> Option<Was<T>> {
        Some(self).filter(|was| !was.is_same())
    }
}
