//! [`LayerState`]: what a layer and its services have in common.

use crate::decide::GateRules;
use crate::place::{Local, Place};

/// Everything that clones of a layer and its services share. Changing a layer makes a new one around the same gates.
pub(crate) struct LayerState<D, P: Place = Local> {
    pub(crate) rules: GateRules<P>,
    pub(crate) deny: D,
}

impl<D: Clone, P: Place> Clone for LayerState<D, P> {
    fn clone(&self) -> Self {
        Self { rules: self.rules.clone(), deny: self.deny.clone() }
    }
}
