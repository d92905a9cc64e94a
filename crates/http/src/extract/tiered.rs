//! [`Tiered`]: a key under one of several quotas.

use super::{Extract, Head, NoKey};
use crate::key::Key;
use crate::warning::Warnings;

/// An extractor whose keys are under the quota that a function chooses: [`Extract::tier`].
pub(super) struct Tiered<E, F> {
    pub(super) extractor: E,
    pub(super) of: F,
}

impl<E, F> Extract for Tiered<E, F>
where
    E: Extract,
    F: Fn(&Head<'_>) -> Option<usize> + Send + Sync,
{
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        self.extractor.extract(head, key)?;
        key.set_tier((self.of)(head));
        Ok(())
    }

    fn warnings(&self) -> Warnings {
        self.extractor.warnings()
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::extract::{Bearer, Everyone, from_fn};

    fn tier(by: &impl Extract) -> Result<Option<usize>, NoKey> {
        let mut key = Key::new();
        by.extract(&Head::of(&Request::new(())), &mut key).map(|()| key.tier())
    }

    /// An extractor that finds nothing leaves no tier behind. In a tuple, the last extractor that sets a tier decides.
    #[test]
    fn the_tier_is_that_of_the_extractor_which_found_the_key() {
        assert_eq!(tier(&Everyone), Ok(Some(0)));
        assert_eq!(tier(&Bearer.tier(|_| Some(1))), Err(NoKey::Missing));
        let sets_and_fails = || {
            from_fn(|_, key| {
                key.set_tier(Some(7));
                Err(NoKey::Missing)
            })
        };
        assert_eq!(tier(&sets_and_fails().or(Everyone)), Ok(Some(0)));
        assert_eq!(tier(&sets_and_fails().optional()), Ok(Some(0)));
        let both = (Everyone.tier(|_| Some(1)), Everyone.tier(|_| Some(2)));
        assert_eq!(tier(&both), Ok(Some(2)));
        assert_eq!(tier(&(Everyone.tier(|_| Some(1)), Everyone)), Ok(Some(1)));
    }
}
