//! [`Cost`]: the units that a request takes.

use std::fmt;
use std::sync::Arc;

use http::Method;
use tollgate_http::keys::{Head, Methods};

/// The units that a request costs: 1 by default.
///
/// ```
/// use http::{Method, Request};
/// use tollgate_tower::gates::Cost;
/// use tollgate_tower::keys::Head;
/// let cost = Cost::by_method([(Method::POST, 2), (Method::DELETE, 5)], 1);
/// let post = Request::post("/user").body(())?;
/// assert_eq!(cost.of(&Head::of(&post)), 2);
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone)]
pub struct Cost(CostKind);

#[derive(Clone)]
enum CostKind {
    Constant(u64),
    /// A list that is searched from its start, since there are few methods.
    Methods(Arc<[(Method, u64)]>, u64),
    /// Sorted by route.
    #[cfg(feature = "axum")]
    Routes(Arc<[(Box<str>, u64)]>, u64),
    Function(Arc<dyn Fn(&Head<'_>) -> u64 + Send + Sync>),
}

impl Cost {
    /// The same cost for every request. A cost of 0 charges nothing: such requests only get the headers.
    ///
    /// ```
    /// use http::Request;
    /// use tollgate_tower::gates::Cost;
    /// use tollgate_tower::keys::Head;
    /// assert_eq!(Cost::constant(3).of(&Head::of(&Request::new(()))), 3);
    /// ```
    #[must_use]
    pub const fn constant(units: u64) -> Self {
        Self(CostKind::Constant(units))
    }

    /// A cost for each method; `others` is the cost of all methods that are not listed. HEAD costs the same as GET,
    /// unless it is listed.
    ///
    /// ```
    /// use http::{Method, Request};
    /// use tollgate_tower::gates::Cost;
    /// use tollgate_tower::keys::Head;
    /// let cost = Cost::by_method([(Method::GET, 2)], 1);
    /// assert_eq!(cost.of(&Head::of(&Request::head("/").body(())?)), 2);
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn by_method(costs: impl IntoIterator<Item = (Method, u64)>, others: u64) -> Self {
        Self(CostKind::Methods(costs.into_iter().collect(), others))
    }

    /// A cost for each route that axum matches, in the form in which it was registered; `others` is the cost of all
    /// other routes. Needs the feature `axum`.
    ///
    /// ```
    /// use tollgate_tower::gates::Cost;
    /// let cost = Cost::by_route([("/search", 5), ("/users/{id}", 1)], 2);
    /// # let _ = cost;
    /// ```
    #[cfg(feature = "axum")]
    #[must_use]
    pub fn by_route<'a>(costs: impl IntoIterator<Item = (&'a str, u64)>, others: u64) -> Self {
        let mut costs: Vec<(Box<str>, u64)> =
            costs.into_iter().map(|(route, units)| (route.into(), units)).collect();
        costs.sort();
        Self(CostKind::Routes(costs.into(), others))
    }

    /// The cost that a function computes.
    ///
    /// ```
    /// use http::Request;
    /// use http::header::CONTENT_LENGTH;
    /// use tollgate_tower::gates::Cost;
    /// use tollgate_tower::keys::Head;
    /// // A unit for each KiB of the announced length.
    /// let cost = Cost::from_fn(|head| {
    ///     let length = head.headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok());
    ///     length.map_or(1, |bytes: u64| bytes.div_ceil(1_024).max(1))
    /// });
    /// let request = Request::post("/").header("content-length", "5000").body(())?;
    /// assert_eq!(cost.of(&Head::of(&request)), 5);
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn from_fn(function: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        Self(CostKind::Function(Arc::new(function)))
    }

    /// The cost of this request.
    ///
    /// ```
    /// use http::Request;
    /// use tollgate_tower::gates::Cost;
    /// use tollgate_tower::keys::Head;
    /// assert_eq!(Cost::default().of(&Head::of(&Request::new(()))), 1);
    /// ```
    #[inline]
    #[must_use]
    pub fn of(&self, head: &Head<'_>) -> u64 {
        match &self.0 {
            CostKind::Constant(units) => *units,
            CostKind::Methods(costs, others) => {
                let of = |method: &Method| Some(costs.iter().find(|(it, _)| it == method)?.1);
                of(head.method).or_else(|| of(Methods::of(head))).unwrap_or(*others)
            }
            #[cfg(feature = "axum")]
            CostKind::Routes(costs, others) => {
                let route = crate::route::route_of(head);
                let found = route
                    .and_then(|it| costs.binary_search_by(|(route, _)| (**route).cmp(it)).ok());
                found.map_or(*others, |at| costs[at].1)
            }
            CostKind::Function(function) => function(head),
        }
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::constant(1)
    }
}

impl From<u64> for Cost {
    fn from(units: u64) -> Self {
        Self::constant(units)
    }
}

impl fmt::Debug for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            CostKind::Constant(units) => write!(f, "Cost({units})"),
            CostKind::Methods(costs, others) => write!(f, "Cost({costs:?}, others {others})"),
            #[cfg(feature = "axum")]
            CostKind::Routes(costs, others) => write!(f, "Cost({costs:?}, others {others})"),
            CostKind::Function(_) => f.write_str("Cost(function)"),
        }
    }
}
