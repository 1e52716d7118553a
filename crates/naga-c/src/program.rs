//! The whole source: which entry points and functions are written, in which order the parts stand.

use std::collections::{HashMap, HashSet};

use naga::proc::{CaseInsensitiveKeywordSet, KeywordSet, NameKey, Namer};
use naga::valid::{FunctionInfo, GlobalUse, ModuleInfo};
use naga::{
    AddressSpace, Block, Expression, FastHashMap, Function, GlobalVariable, Handle, Module, ShaderStage,
    Statement, StorageAccess, TypeInner,
};

use crate::constants::Constants;
use crate::dialect::{Needs, Target, target};
use crate::function;
use crate::helpers::Helpers;
use crate::keywords::{KEYWORDS, RESERVED_PREFIXES};
use crate::layout::{c_layout, round_up, type_name};
use crate::types::Types;
use crate::{Argument, ArgumentKind, EntryPoint, Error, Options, Output};

/// What is known and written so far. The other modules add methods to it.
pub(crate) struct Program<'a> {
    pub(crate) module: &'a Module,
    pub(crate) info: &'a ModuleInfo,
    pub(crate) options: &'a Options,
    pub(crate) target: &'static dyn Target,
    pub(crate) needs: Needs,
    pub(crate) names: FastHashMap<NameKey, String>,
    pub(crate) namer: Namer,
    /// Names of the parameters that hold sizes of buffers.
    pub(crate) size_names: HashMap<Handle<GlobalVariable>, String>,
    pub(crate) types: Types,
    pub(crate) helpers: Helpers,
    pub(crate) constants: Constants,
}

pub(crate) fn write(
    module: &Module,
    info: &ModuleInfo,
    entry: Option<&str>,
    options: &Options,
) -> Result<Output, Error> {
    let entries = select(module, entry)?;
    let mut program = Program::new(module, info, options);

    let mut functions = String::new();
    for handle in reachable(module, &entries) {
        functions += &function::write_function(&mut program, handle)?;
        functions.push('\n');
    }
    let mut entry_points = Vec::new();
    for index in entries {
        functions += &function::write_kernel(&mut program, index)?;
        functions.push('\n');
        entry_points.push(program.entry_point(index)?);
    }

    let parts = [
        program.target.header(&program.needs),
        program.type_definitions()?,
        program.helpers.text.clone(),
        program.constants.text.clone(),
        functions,
    ];
    let source: Vec<_> = parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect();
    Ok(Output {
        source: source.join("\n\n") + "\n",
        entry_points,
        extensions: {
            let mut extensions = program.target.extensions(&program.needs);
            extensions.sort_unstable();
            extensions
        },
        subgroups: program.needs.subgroups,
    })
}

/// Indices of the entry points to write.
fn select(module: &Module, entry: Option<&str>) -> Result<Vec<usize>, Error> {
    match entry {
        Some(name) => {
            let named = |stage: Option<ShaderStage>| {
                let matches =
                    |point: &naga::EntryPoint| point.name == name && stage.is_none_or(|s| s == point.stage);
                module.entry_points.iter().position(matches)
            };
            if let Some(index) = named(Some(ShaderStage::Compute)) {
                return Ok(vec![index]);
            }
            Err(match named(None) {
                Some(index) => {
                    Error::NotCompute { name: name.into(), stage: module.entry_points[index].stage }
                }
                None => Error::UnknownEntryPoint(name.into()),
            })
        }
        None => {
            let points = module.entry_points.iter().enumerate();
            let compute: Vec<_> = points
                .filter(|(_, point)| point.stage == ShaderStage::Compute)
                .map(|(index, _)| index)
                .collect();
            if compute.is_empty() { Err(Error::NoEntryPoint) } else { Ok(compute) }
        }
    }
}

/// The functions that the entry points call, callees first: naga keeps them in that order.
fn reachable(module: &Module, entries: &[usize]) -> Vec<Handle<Function>> {
    let mut seen = HashSet::new();
    let mut open: Vec<&Block> =
        entries.iter().map(|index| &module.entry_points[*index].function.body).collect();
    while let Some(block) = open.pop() {
        for statement in block.iter() {
            if let Statement::Call { function, .. } = *statement
                && seen.insert(function)
            {
                open.push(&module.functions[function].body);
            }
            open.extend(inner_blocks(statement));
        }
    }
    module.functions.iter().map(|(handle, _)| handle).filter(|handle| seen.contains(handle)).collect()
}

/// The blocks of a statement.
pub(crate) fn inner_blocks(statement: &Statement) -> Vec<&Block> {
    match statement {
        Statement::Block(block) => vec![block],
        Statement::If { accept, reject, .. } => vec![accept, reject],
        Statement::Switch { cases, .. } => cases.iter().map(|case| &case.body).collect(),
        Statement::Loop { body, continuing, .. } => vec![body, continuing],
        _ => Vec::new(),
    }
}

impl<'a> Program<'a> {
    fn new(module: &'a Module, info: &'a ModuleInfo, options: &'a Options) -> Self {
        let mut namer = Namer::default();
        let mut names = FastHashMap::default();
        namer.reset(
            module,
            &KEYWORDS,
            KeywordSet::empty(),
            CaseInsensitiveKeywordSet::empty(),
            RESERVED_PREFIXES,
            &mut names,
        );
        let mut size_names = HashMap::new();
        for (handle, _) in module.global_variables.iter() {
            let name = namer.call(&format!("{}_bytes", names[&NameKey::GlobalVariable(handle)]));
            size_names.insert(handle, name);
        }
        Self {
            module,
            info,
            options,
            target: target(options.dialect),
            needs: Needs::default(),
            names,
            namer,
            size_names,
            types: Types::default(),
            helpers: Helpers::default(),
            constants: Constants::default(),
        }
    }

    /// The globals that a function or what it calls uses, in the module's order, each with whether its size is asked for.
    pub(crate) fn used_globals(
        &self,
        info: &FunctionInfo,
    ) -> Result<Vec<(Handle<GlobalVariable>, bool)>, Error> {
        if info.global_variable_count() != self.module.global_variables.len() {
            return Err(Error::Inconsistent("it was made for another number of global variables"));
        }
        let mut used = Vec::new();
        for (handle, variable) in self.module.global_variables.iter() {
            let uses = info[handle];
            if uses.is_empty() {
                continue;
            }
            let name = variable.name.clone().unwrap_or_default();
            if !variable.memory_decorations.is_empty() {
                return Err(Error::UnsupportedDecoration(name));
            }
            match variable.space {
                AddressSpace::Private | AddressSpace::WorkGroup => {}
                AddressSpace::Storage { .. } | AddressSpace::Uniform => {
                    if matches!(self.module.types[variable.ty].inner, TypeInner::BindingArray { .. }) {
                        return Err(Error::UnsupportedType(format!("the binding array `{name}`")));
                    }
                }
                AddressSpace::Handle => return Err(Error::UnsupportedType(self.resource(variable))),
                space => return Err(Error::UnsupportedAddressSpace { name, space: format!("{space:?}") }),
            }
            let checked =
                self.options.bounds_checks && matches!(variable.space, AddressSpace::Storage { .. });
            let sized = checked || uses.contains(GlobalUse::QUERY);
            if sized && !checked && !self.options.buffer_sizes {
                return Err(Error::BufferSizesNeeded(name));
            }
            used.push((handle, sized));
        }
        Ok(used)
    }

    /// What a resource that is no buffer is, for messages.
    fn resource(&self, variable: &GlobalVariable) -> String {
        let name = variable.name.as_deref().unwrap_or("without a name");
        let kind = match self.module.types[variable.ty].inner {
            TypeInner::Image { .. } => "texture",
            TypeInner::Sampler { .. } => "sampler",
            TypeInner::AccelerationStructure { .. } => "acceleration structure",
            TypeInner::BindingArray { .. } => "binding array",
            _ => "resource",
        };
        format!("the {kind} `{name}`")
    }

    /// The kernel's parameters: the global that each passes.
    pub(crate) fn arguments(&self, index: usize) -> Result<Vec<(Handle<GlobalVariable>, Argument)>, Error> {
        let mut arguments = Vec::new();
        for (handle, sized) in self.used_globals(self.info.get_entry_point(index))? {
            let variable = &self.module.global_variables[handle];
            let kind = match variable.space {
                AddressSpace::Storage { access } => {
                    ArgumentKind::Storage { read_only: !access.contains(StorageAccess::STORE) }
                }
                AddressSpace::Uniform => ArgumentKind::Uniform { size: self.size_of(variable)? },
                _ => continue,
            };
            let binding = variable
                .binding
                .ok_or_else(|| Error::MissingBinding(variable.name.clone().unwrap_or_default()))?;
            let argument = Argument { group: binding.group, binding: binding.binding, kind };
            arguments.push((handle, argument));
            if sized {
                arguments.push((handle, Argument { kind: ArgumentKind::StorageSize, ..argument }));
            }
        }
        arguments.sort_by_key(|(_, a)| (a.kind == ArgumentKind::StorageSize, a.group, a.binding));
        Ok(arguments)
    }

    fn size_of(&self, variable: &GlobalVariable) -> Result<u32, Error> {
        let layout = c_layout(self.module, variable.ty)?;
        Ok(layout.ok_or_else(|| Error::Layout(type_name(self.module, variable.ty)))?.size)
    }

    fn entry_point(&self, index: usize) -> Result<EntryPoint, Error> {
        let point = &self.module.entry_points[index];
        let mut workgroup_memory = 0_u32;
        for (handle, _) in self.used_globals(self.info.get_entry_point(index))? {
            let variable = &self.module.global_variables[handle];
            if variable.space == AddressSpace::WorkGroup {
                // Types with `bool` have no layout of their own: naga's, with a byte each, is the least they take.
                let (size, align) = match c_layout(self.module, variable.ty)? {
                    Some(layout) => (layout.size, layout.align),
                    None => (self.module.types[variable.ty].inner.size(self.module.to_ctx()), 16),
                };
                workgroup_memory = round_up(workgroup_memory, align).saturating_add(size);
            }
        }
        Ok(EntryPoint {
            name: self.entry_name(index).to_string(),
            source_name: point.name.clone(),
            workgroup_size: point.workgroup_size,
            arguments: self.arguments(index)?.into_iter().map(|(_, argument)| argument).collect(),
            workgroup_memory,
        })
    }

    /// The kernel's name in C.
    pub(crate) fn entry_name(&self, index: usize) -> &str {
        // naga's own index type holds 16 bits; modules of more entry points do not pass its validator.
        &self.names[&NameKey::EntryPoint(index as u16)]
    }

    /// An error for an override that was not processed.
    pub(crate) fn unresolved(&self, expression: &Expression) -> Error {
        match *expression {
            Expression::Override(handle) => {
                Error::UnresolvedOverride(self.module.overrides[handle].name.clone().unwrap_or_default())
            }
            _ => Error::Inconsistent("an override was expected"),
        }
    }
}
