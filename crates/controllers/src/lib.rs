#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod aimd;
mod error;
mod gradient;
mod min_gradient;
mod range;
mod shed;

pub use aimd::Aimd;
pub use error::ControllerError;
pub use gradient::Gradient;
pub use min_gradient::MinGradient;
pub use shed::{AdmissionControl, ClientThrottle};
