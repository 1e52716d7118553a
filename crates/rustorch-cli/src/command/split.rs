//! `split` and `merge`: a model file in parts, and parts in one file.

use crate::args::{MergeArgs, SplitArgs};
use crate::failure::Failure;
use crate::{model, output};
use rustorch::gguf::{Error, Writer};

pub(crate) fn split(args: &SplitArgs) -> Result<(), Failure> {
    let file = model::open_file(Some(&args.source), args.no_mmap)?;
    if file.parts().len() > 1 {
        return Err(Failure::Usage(format!(
            "{} is one of {} parts already; merge makes one file of them",
            args.source.display(),
            file.parts().len()
        )));
    }
    let writer = Writer::copy_of(&file);
    let paths = match args.max_tensors {
        Some(n) => writer.write_groups(&args.prefix, &vec![n; file.tensors().len() / n]),
        None => writer.write_split(&args.prefix, args.max_size),
    };
    for path in paths.map_err(failure)? {
        output::line(path.display())?;
    }
    Ok(())
}

pub(crate) fn merge(args: &MergeArgs) -> Result<(), Failure> {
    let file = model::open_file(Some(&args.part), args.no_mmap)?;
    for part in file.parts().iter().filter_map(|part| part.path()) {
        output::refuse_same_file(part, &args.target)?;
    }
    Writer::copy_of(&file).write_file(&args.target).map_err(failure)?;
    output::line(args.target.display())
}

fn failure(error: Error) -> Failure {
    Failure::Other(error.to_string())
}
