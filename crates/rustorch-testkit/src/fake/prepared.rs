//! Operations that a fake device makes ready: it remembers what for, and insists on it.

use rustorch_core::{DType, Layout, Op, PrepareRequest, View, ViewMut};

/// An operation, and the operands that it was made ready for.
pub(super) struct FakePrepared {
    pub(super) op: Op,
    args: Vec<(DType, Layout, bool)>,
    outs: Vec<(DType, Layout)>,
}

impl FakePrepared {
    pub(super) fn new(request: &PrepareRequest<'_>) -> FakePrepared {
        let args = request.args.iter().zip(request.aliased);
        FakePrepared {
            op: request.op.clone(),
            args: args.map(|(x, aliased)| (x.dtype, x.layout.clone(), *aliased)).collect(),
            outs: request.outs.iter().map(|x| (x.dtype, x.layout.clone())).collect(),
        }
    }

    /// # Panics
    /// If the operands are others, which breaks the contract of [`Backend::run_prepared`](rustorch_core::Backend::run_prepared).
    pub(super) fn check(&self, args: &[View<'_>], outs: &[ViewMut<'_>]) {
        let name = self.op.name();
        let seen: Vec<_> = args.iter().map(|x| (x.dtype(), x.layout().clone(), x.is_aliased())).collect();
        assert_eq!(seen, self.args, "the arguments of {name} are not those that it was made ready for");
        let seen: Vec<_> = outs.iter().map(|x| (x.dtype(), x.layout().clone())).collect();
        assert_eq!(seen, self.outs, "the results of {name} are not those that it was made ready for");
    }
}
