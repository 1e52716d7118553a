//! Errors: `Error` for the caller's mistakes, `Decline` for unsupported ops, `Fault` for failures while running.

use crate::{DType, Device, MatrixDefect, Shape};
use std::fmt;
use std::sync::Arc;

/// The result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation could not be done.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Shapes do not fit the operation or each other.
    #[error("{op}: {message} (shapes: {})", List(.shapes))]
    Shape {
        /// The operation.
        op: &'static str,
        /// What does not fit.
        message: String,
        /// The shapes in question.
        shapes: Vec<Shape>,
    },
    /// Dtypes do not fit the operation or each other.
    #[error("{op}: {message} (dtypes: {})", List(.dtypes))]
    DType {
        /// The operation.
        op: &'static str,
        /// What does not fit.
        message: String,
        /// The dtypes in question.
        dtypes: Vec<DType>,
    },
    /// An axis outside the tensor's dimensions.
    #[error("{op}: dimension {axis} is out of range for a tensor of {ndim} dimensions (use −{} to {})", (*ndim).max(1), (*ndim).max(1) - 1)]
    Axis {
        /// The operation.
        op: &'static str,
        /// The axis as given.
        axis: isize,
        /// The tensor's rank.
        ndim: usize,
    },
    /// An index outside a dimension.
    #[error("{op}: index {index} is out of range for a dimension of length {len}")]
    Index {
        /// The operation.
        op: &'static str,
        /// The index as given.
        index: i64,
        /// The length of the dimension.
        len: usize,
    },
    /// A matrix whose values leave an operation without a result.
    #[error("{op}: the matrix{} {defect}", OfBatch(.batch))]
    Matrix {
        /// The operation.
        op: &'static str,
        /// Its index in the batch: one index for each leading dimension, none of a single matrix.
        batch: Vec<usize>,
        /// What it lacks.
        defect: MatrixDefect,
    },
    /// Any other argument that makes no sense.
    #[error("{op}: {message}")]
    Argument {
        /// The operation.
        op: &'static str,
        /// What is wrong and what to do.
        message: String,
    },
    /// A [custom op](crate::CustomOp) is incomplete, or one of its closures failed or panicked.
    #[error("custom op `{op}`, version {version}: {message}")]
    Custom {
        /// The operation.
        op: &'static str,
        /// Its version.
        version: u32,
        /// What is wrong, or what the closure said.
        message: String,
    },
    /// No device ran the operation.
    #[error(transparent)]
    Dispatch(#[from] Box<DispatchError>),
    /// A device failed outside an operation, in a copy or a synchronisation.
    #[error(transparent)]
    Fault(Box<Fault>),
    /// A run of a program failed behind its first write in place, and could not undo it.
    #[error(
        "{error}; the run had written to {} of the program, which {} neither as before it nor as after it: set or load {} anew before \
         the next use",
        Numbered("state", .states),
        if states.len() == 1 { "is" } else { "are" },
        if states.len() == 1 { "it" } else { "them" }
    )]
    StatesWritten {
        /// The indices of these states in the graph's [`states`](crate::Graph::states). The others are as they were.
        states: Vec<usize>,
        /// Why the run failed.
        error: Box<Error>,
    },
}

impl Error {
    /// An [`Error::Argument`].
    pub fn argument(op: &'static str, message: impl Into<String>) -> Error {
        Error::Argument { op, message: message.into() }
    }

    /// An [`Error::Shape`].
    pub fn shape<'a>(
        op: &'static str,
        message: impl Into<String>,
        shapes: impl IntoIterator<Item = &'a Shape>,
    ) -> Error {
        Error::Shape { op, message: message.into(), shapes: shapes.into_iter().cloned().collect() }
    }

    /// An [`Error::DType`].
    pub fn dtype(
        op: &'static str,
        message: impl Into<String>,
        dtypes: impl IntoIterator<Item = DType>,
    ) -> Error {
        Error::DType { op, message: message.into(), dtypes: dtypes.into_iter().collect() }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Invalid(error) => *error,
            other => Error::Fault(Box::new(other)),
        }
    }
}

/// An operation that no device ran: the operation, its arguments, and every device considered with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchError {
    /// The operation's name.
    pub op: &'static str,
    /// Dtype and shape of each argument.
    pub args: Vec<(DType, Shape)>,
    /// Every device that was considered, in order, with what it said.
    pub considered: Vec<(Device, Verdict)>,
}

impl fmt::Display for DispatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no device ran {}(", self.op)?;
        for (i, (dtype, shape)) in self.args.iter().enumerate() {
            write!(f, "{}{dtype}{shape}", if i == 0 { "" } else { ", " })?;
        }
        write!(f, ")")?;
        for (device, verdict) in &self.considered {
            write!(f, "\n  {device}: {verdict}")?;
        }
        if self.considered.is_empty() {
            write!(f, ": no device is in the fallback order")?;
        }
        Ok(())
    }
}

impl std::error::Error for DispatchError {}

/// What became of one device in the search for one that runs an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It ran the operation.
    Ran,
    /// It cannot, by its own word.
    Declined(Decline),
    /// It tried and failed.
    Failed(Fault),
    /// It could, but another device was cheaper by the cost model.
    Costlier,
    /// The placement policy rules it out.
    Excluded,
    /// It failed for good earlier and is out for the rest of the process.
    Lost,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Ran => f.write_str("ran"),
            Verdict::Declined(decline) => write!(f, "declined: {decline}"),
            Verdict::Failed(fault) => write!(f, "failed: {fault}"),
            Verdict::Costlier => f.write_str("able, but another device is cheaper"),
            Verdict::Excluded => f.write_str("excluded by the placement policy"),
            Verdict::Lost => f.write_str("lost earlier in this process"),
        }
    }
}

/// Why a device will not run an operation. Found in planning, before anything runs; not a failure.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Decline {
    /// It does not compute in this dtype.
    #[error("dtype {0} is not supported")]
    DType(DType),
    /// It takes fewer dimensions.
    #[error("rank {ndim} exceeds its limit of {limit}")]
    Rank {
        /// The rank asked for.
        ndim: usize,
        /// The most it takes.
        limit: usize,
    },
    /// It needs another arrangement in memory.
    #[error("layout: {0}")]
    Layout(&'static str),
    /// It does not have the operation.
    #[error("operation {0} is not supported")]
    Op(&'static str),
    /// It has the operation, but not with these parameters.
    #[error("parameter: {0}")]
    Attr(&'static str),
    /// The work is too small to be worth it.
    #[error("too small: {bytes} bytes, {least} at least")]
    TooSmall {
        /// The bytes of work.
        bytes: usize,
        /// The least that it takes.
        least: usize,
    },
    /// Its result would be less precise than asked for.
    #[error("precision: {0}")]
    Precision(&'static str),
    /// Its kernel is still being compiled.
    #[error("its kernel is still compiling")]
    Compiling,
    /// The kernel that a [custom op](crate::CustomOp) brings cannot run there.
    #[error("kernel: {0}")]
    Kernel(Arc<str>),
    /// The program that it would run instead of operations is refused, or there is none: why.
    #[error("{0}")]
    Program(Arc<str>),
    /// The operation failed there before.
    #[error("quarantined after an earlier failure")]
    Quarantined,
}

/// How a device failed while running.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The caller's mistake: never retried elsewhere.
    #[error(transparent)]
    Invalid(Box<Error>),
    /// Memory ran out.
    #[error("out of memory on {device}: {requested} bytes requested")]
    OutOfMemory {
        /// The device.
        device: Device,
        /// The bytes asked for.
        requested: usize,
    },
    /// The device is gone.
    #[error("device {device} is lost: {message}")]
    DeviceLost {
        /// The device.
        device: Device,
        /// What its driver said.
        message: String,
    },
    /// The result is wrong by the device's own check.
    #[error("numeric failure on {device}: {message}")]
    Numeric {
        /// The device.
        device: Device,
        /// What was found.
        message: String,
    },
    /// The device's driver or library refused.
    #[error("{device}: {message}")]
    Backend {
        /// The device.
        device: Device,
        /// What it said.
        message: String,
    },
    /// The device did not finish in time.
    #[error("{device} did not finish within {millis} ms")]
    Timeout {
        /// The device.
        device: Device,
        /// The limit, in milliseconds.
        millis: u64,
    },
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Invalid(Box::new(error))
    }
}

/// The index of a matrix in a batch, if there is one.
struct OfBatch<'a>(&'a [usize]);

impl fmt::Display for OfBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            [i] => write!(f, " of batch {i}"),
            place => write!(f, " of batch {place:?}"),
        }
    }
}

/// What there is of something, by number.
struct Numbered<'a>(&'static str, &'a [usize]);

impl fmt::Display for Numbered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Numbered(what, numbers) = self;
        write!(f, "{what}{} {}", if numbers.len() == 1 { "" } else { "s" }, List(numbers))
    }
}

/// Items separated by commas.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
