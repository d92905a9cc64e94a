//! [`LayerState`]: what a layer and its services have in common.

use crate::decide::GateRules;
use crate::headers::Headers;

/// Everything that clones of a layer and its services share. Changing a layer makes a new one around the same gates.
#[derive(Clone)]
pub(crate) struct LayerState<D> {
    pub(crate) rules: GateRules,
    pub(crate) deny: D,
    pub(crate) headers: Headers,
}
