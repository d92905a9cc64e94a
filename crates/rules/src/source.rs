//! [`RuleSource`]: where rules come from, and how it says that they have changed.

use std::sync::mpsc::SyncSender;

use crate::error::RuleError;

/// One rule file, unread.
///
/// ```
/// use tollgate_rules::RuleText;
/// let text = RuleText::new("shop.yaml", "domain: shop");
/// assert_eq!((text.file(), text.bytes()), ("shop.yaml", &b"domain: shop"[..]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleText {
    file: String,
    bytes: Vec<u8>,
}

impl RuleText {
    /// The most bytes of one file: a ConfigMap of Kubernetes is at most as large.
    pub const MOST_BYTES: usize = 1 << 20;

    /// The most bytes of all files of a source together. A source should read no more than that.
    pub const MOST_BYTES_TOGETHER: usize = 64 << 20;

    /// What a file of this name holds. The name is what errors begin with.
    ///
    /// ```
    /// use tollgate_rules::RuleText;
    /// assert_eq!(RuleText::new("a.yaml", vec![b'#']).bytes().len(), 1);
    /// ```
    #[must_use]
    pub fn new(file: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { file: file.into(), bytes: bytes.into() }
    }

    /// The name of the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What it holds.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Where rules come from: a directory ([`FileSource`](crate::FileSource)), or a store of your own.
///
/// A [`Retriever`](crate::Retriever) owns it and calls it from one thread, so it may block.
///
/// ```
/// use tollgate_rules::{Changed, RuleError, RuleSource, RuleText};
/// struct Constant;
/// impl RuleSource for Constant {
///     fn read(&mut self) -> Result<Vec<RuleText>, RuleError> {
///         Ok(vec![RuleText::new("built in", "domain: shop")])
///     }
/// }
/// assert_eq!(Constant.read()?.len(), 1);
/// # Ok::<(), RuleError>(())
/// ```
pub trait RuleSource: Send + 'static {
    /// All rule files as they are now. If nothing has changed since the last call, the same texts in the
    /// same order.
    ///
    /// # Errors
    /// What could not be read. The rules in force stay.
    fn read(&mut self) -> Result<Vec<RuleText>, RuleError>;

    /// Begins to call [`Changed::notify`] whenever the rules may have changed, until the source is
    /// dropped. Without it, changes are found by polling alone.
    ///
    /// # Errors
    /// Why it cannot. Polling goes on.
    fn watch(&mut self, changed: Changed) -> Result<(), RuleError> {
        let _ = changed;
        Ok(())
    }
}

/// Tells a [`Retriever`](crate::Retriever) to read its source again, soon. Calls that come close together
/// are one: it may be called as often as anything happens, from any thread, and never blocks.
#[derive(Clone, Debug)]
pub struct Changed {
    pub(crate) signal: SyncSender<()>,
}

impl Changed {
    /// See [`Retriever::changed`](crate::Retriever::changed).
    pub fn notify(&self) {
        // Full: it will read anyway. Disconnected: nobody reads any more.
        let _ = self.signal.try_send(());
    }
}
