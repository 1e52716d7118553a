//! `pull`: a model of Hugging Face's hub into the cache.

use crate::args::PullArgs;
use crate::failure::Failure;
use crate::{hub, output};

pub(crate) fn run(args: &PullArgs) -> Result<(), Failure> {
    hub::pull(&args.name)?.iter().try_for_each(|path| output::line(path.display()))
}
