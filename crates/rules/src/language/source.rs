//! [`RuleSource`]: the source of rules, and the signal of a change.

use std::sync::mpsc::SyncSender;

use crate::language::error::RuleError;

/// The name and the content of one rule file, not parsed yet.
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
    /// The maximum number of bytes of one file. Kubernetes has the same maximum for a ConfigMap.
    pub const MAX_BYTES: usize = 1 << 20;

    /// The maximum number of bytes of all files of a source together. A source should read no more than that.
    pub const MAX_BYTES_TOGETHER: usize = 64 << 20;

    /// A rule file with this name and this content. Errors in the file begin with the name.
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

    /// The content of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A source of rules: a directory ([`FileSource`](crate::FileSource)), or a store of your own.
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
    /// Reads all rule files as they are now. If nothing has changed since the last call, returns the same texts in the
    /// same order.
    ///
    /// # Errors
    /// The reason why the rules cannot be read. The rules in force stay in force.
    fn read(&mut self) -> Result<Vec<RuleText>, RuleError>;

    /// Called after each [`read`](RuleSource::read) that returned texts. `errors` are the reasons why the texts were
    /// refused; there are none if the texts are in force. This is for a source that reports the outcome to the place
    /// from which its rules come.
    fn loaded(&mut self, errors: &[RuleError]) {
        let _ = errors;
    }

    /// Starts to call [`Changed::notify`] whenever the rules may have changed, until the source is dropped. Changes of
    /// a source without this method are found only by polling.
    ///
    /// # Errors
    /// The reason why the source cannot be watched. Polling continues.
    fn watch(&mut self, changed: Changed) -> Result<(), RuleError> {
        let _ = changed;
        Ok(())
    }
}

/// Makes a [`Retriever`](crate::Retriever) read its source again, soon. Calls in close succession cause one reading, so
/// [`notify`](Changed::notify) may be called for every event. It can be called from any thread, and never blocks.
#[derive(Clone, Debug)]
pub struct Changed {
    pub(crate) signal: SyncSender<()>,
}

impl Changed {
    /// See [`Retriever::changed`](crate::Retriever::changed).
    pub fn notify(&self) {
        // If the channel is full, a reading is due anyway. If it is disconnected, the retriever is gone.
        let _ = self.signal.try_send(());
    }
}
