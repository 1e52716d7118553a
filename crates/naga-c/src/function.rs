//! Functions and kernels.
//!
//! C has no variables at module scope that a kernel's launch could fill, so what a function uses of the module's variables is
//! passed to it as pointers, after its own arguments. Kernels declare the private and workgroup ones.

use naga::proc::NameKey;
use naga::{
    AddressSpace, Barrier, Binding, BuiltIn, Function, GlobalVariable, Handle, Scalar, TypeInner, VectorSize,
};

use crate::expr::{Body, Scope, bare};
use crate::layout::{array_length, is_runtime_array};
use crate::program::Program;
use crate::{ArgumentKind, Error};

/// A function that kernels call.
pub(crate) fn write_function(program: &mut Program<'_>, handle: Handle<Function>) -> Result<String, Error> {
    let (module, info) = (program.module, &program.info[handle]);
    let function = &module.functions[handle];
    let mut parameters = Vec::new();
    for (index, argument) in function.arguments.iter().enumerate() {
        let ty = match module.types[argument.ty].inner {
            TypeInner::Pointer { base, space } => program.pointer_type(base, space)?,
            TypeInner::ValuePointer { .. } => {
                return Err(Error::UnsupportedType("a pointer to a part of a vector".into()));
            }
            _ => program.value_type(argument.ty)?,
        };
        parameters.push(format!("{ty} {}", program.names[&NameKey::FunctionArgument(handle, index as u32)]));
    }
    for (global, sized) in program.used_globals(info)? {
        parameters.push(program.global_parameter(global)?);
        if sized {
            let ty = program.scalar(Scalar::U32)?;
            parameters.push(format!("{ty} {}", program.size_names[&global]));
        }
    }
    let result = match &function.result {
        Some(result) => program.value_type(result.ty)?,
        None => "void".into(),
    };
    let parameters = if parameters.is_empty() { "void".into() } else { parameters.join(", ") };
    let name = &program.names[&NameKey::Function(handle)];
    let head = format!("{}{result} {name}({parameters}) {{\n", program.target.function());
    let mut body = Body::new(program, function, info, Scope::Function(handle))?;
    body.locals()?;
    body.block(&function.body)?;
    let own = without_last_return(&body.out).to_owned();
    let known = function.name.as_deref();
    let Some(intrinsic) = program.options.intrinsics.iter().find(|intrinsic| known == Some(intrinsic.name))
    else {
        return Ok(format!("{head}{own}}}\n"));
    };
    let mut text = intrinsic.body.replace("$result", &result);
    for index in 0..function.arguments.len() {
        let name = &program.names[&NameKey::FunctionArgument(handle, index as u32)];
        text = text.replace(&format!("${index}"), name);
    }
    Ok(format!("{head}#if {}\n{text}\n#else\n{own}#endif\n}}\n", intrinsic.condition))
}

/// An entry point.
pub(crate) fn write_kernel(program: &mut Program<'_>, index: usize) -> Result<String, Error> {
    let (module, info) = (program.module, program.info.get_entry_point(index));
    let point = &module.entry_points[index];
    if point.workgroup_size_overrides.is_some_and(|sizes| sizes.iter().any(Option::is_some)) {
        return Err(Error::UnresolvedOverride(format!("the workgroup size of `{}`", point.name)));
    }
    let mut parameters = Vec::new();
    for (global, argument) in program.arguments(index)? {
        let name = program.names[&NameKey::GlobalVariable(global)].clone();
        let variable = &module.global_variables[global];
        parameters.push(match argument.kind {
            ArgumentKind::Storage { .. } => {
                let restrict = if program.options.restrict { program.target.restrict() } else { "" };
                let ty = program.pointer_type(variable.ty, variable.space)?;
                format!("{ty}{restrict} {name}")
            }
            ArgumentKind::Uniform { .. } => {
                let ty = program.memory_type(variable.ty)?;
                format!("{}{ty} {name}", program.target.by_value())
            }
            ArgumentKind::StorageSize => {
                let ty = program.scalar(Scalar::U32)?;
                format!("const {ty} {}", program.size_names[&global])
            }
        });
    }
    let name = program.entry_name(index).to_string();
    let parameters =
        if parameters.is_empty() { String::new() } else { format!("\n    {}\n", parameters.join(",\n    ")) };
    let head = format!("{}{name}({parameters}) {{\n", program.target.kernel(point.workgroup_size));
    // Entry points have 16-bit indices in naga.
    let mut body = Body::new(program, &point.function, info, Scope::Kernel(index as u16))?;
    body.module_variables(index)?;
    body.builtins(point.workgroup_size)?;
    body.locals()?;
    body.block(&point.function.body)?;
    Ok(format!("{head}{}}}\n", without_last_return(&body.out)))
}

/// The body without a `return;` that would be its last line: C returns there anyway.
fn without_last_return(body: &str) -> &str {
    body.strip_suffix("    return;\n").filter(|rest| rest.is_empty() || rest.ends_with('\n')).unwrap_or(body)
}

impl Program<'_> {
    /// A global as a function's parameter: always a pointer.
    fn global_parameter(&mut self, global: Handle<GlobalVariable>) -> Result<String, Error> {
        let variable = &self.module.global_variables[global];
        let ty = self.pointer_type(variable.ty, variable.space)?;
        Ok(format!("{ty} {}", self.names[&NameKey::GlobalVariable(global)]))
    }
}

impl Body<'_, '_> {
    /// Variables of the function, all at its start.
    fn locals(&mut self) -> Result<(), Error> {
        let function = self.function;
        for (handle, local) in function.local_variables.iter() {
            let ty = self.program.memory_type(local.ty)?;
            let inner = &self.program.module.types[local.ty].inner;
            let value = match local.init {
                Some(init) => {
                    let value = self.value(init)?;
                    self.program.stored(inner, value)?
                }
                None => self.program.zero_initializer(local.ty)?,
            };
            let name = self.local_name(handle);
            self.line(&format!("{ty} {name} = {};", bare(&value)));
        }
        Ok(())
    }

    /// The module's variables that only kernels can declare.
    fn module_variables(&mut self, index: usize) -> Result<(), Error> {
        let module = self.program.module;
        let mut shared = Vec::new();
        for (handle, _) in self.program.used_globals(self.program.info.get_entry_point(index))? {
            let variable = &module.global_variables[handle];
            let name = self.program.names[&NameKey::GlobalVariable(handle)].clone();
            match variable.space {
                AddressSpace::WorkGroup => {
                    let ty = self.program.memory_type(variable.ty)?;
                    self.line(&format!("{}{ty} {name};", self.program.target.workgroup()));
                    shared.push((name, variable));
                }
                AddressSpace::Private => {
                    let ty = self.program.memory_type(variable.ty)?;
                    let value = match variable.init {
                        Some(init) => self.program.initializer(init, variable.ty)?,
                        None => self.program.zero_initializer(variable.ty)?,
                    };
                    self.line(&format!("{ty} {name} = {value};"));
                }
                _ => {}
            }
        }
        if self.program.options.zero_workgroup && !shared.is_empty() {
            let size = module.entry_points[index].workgroup_size;
            for (name, variable) in shared {
                self.zero_workgroup(&name, variable, size)?;
            }
            for line in self.program.target.barrier(Barrier::WORK_GROUP, true) {
                self.line(line);
            }
        }
        Ok(())
    }

    /// Sets a workgroup variable to zero, with all invocations if it is an array.
    fn zero_workgroup(&mut self, name: &str, variable: &GlobalVariable, size: [u32; 3]) -> Result<(), Error> {
        let module = self.program.module;
        let index = self.builtin_texts(BuiltIn::LocalInvocationIndex, size)?.remove(0);
        // Arrays of arrays are one range of elements.
        let (mut element, mut counts) = (variable.ty, Vec::new());
        while let TypeInner::Array { base, size, .. } = module.types[element].inner {
            let count =
                array_length(module, size)?.ok_or(Error::Inconsistent("runtime-sized workgroup memory"))?;
            counts.push((element, count));
            element = base;
        }
        let u32_ty = self.program.scalar(Scalar::U32)?;
        let zero = match self.program.shape_of(&module.types[element].inner) {
            // Packed vectors are set by an initializer.
            Some(shape) if self.program.is_packed(shape) => {
                let value = self.program.zero_value(element)?;
                self.program.stored(&module.types[element].inner, value)?
            }
            _ => self.program.zero_value(element)?,
        };
        if counts.is_empty() {
            self.line(&format!("if ({index} == 0u) {{\n    {name} = {zero};\n}}"));
            return Ok(());
        }
        let total = counts.iter().map(|(_, count)| u64::from(*count)).product::<u64>();
        let (mut place, mut below) = (name.to_string(), total);
        for (array, count) in counts {
            let above = below;
            below /= u64::from(count);
            let mut part = "nc_i".to_string();
            if above != total {
                part = format!("{part} % {above}u");
            }
            if below != 1 {
                part = format!("{part} / {below}u");
            }
            place += &format!(".inner[{part}]{}", self.program.element_suffix(array)?);
        }
        let step: u32 = size.iter().product();
        let start = bare(&index);
        self.line(&format!(
            "for ({u32_ty} nc_i = {start}; nc_i < {total}u; nc_i += {step}u) {{\n    {place} = {zero};\n}}"
        ));
        Ok(())
    }

    /// The kernel's built-in values, under the names of the entry point's arguments.
    fn builtins(&mut self, size: [u32; 3]) -> Result<(), Error> {
        let module = self.program.module;
        let function = self.function;
        for (index, argument) in function.arguments.iter().enumerate() {
            let name = self.argument(index as u32)?;
            let ty = self.program.value_type(argument.ty)?;
            let value = match (&argument.binding, &module.types[argument.ty].inner) {
                (Some(binding), _) => self.builtin(binding, size)?,
                (None, TypeInner::Struct { members, .. }) => {
                    let mut parts = Vec::with_capacity(members.len());
                    for member in members {
                        let binding = member
                            .binding
                            .as_ref()
                            .ok_or(Error::Inconsistent("an argument without a binding"))?;
                        let value = self.builtin(binding, size)?;
                        parts.push(self.program.stored(&module.types[member.ty].inner, value)?);
                    }
                    let initializer = self.program.braces(argument.ty, &parts)?;
                    self.program.aggregate(argument.ty, &initializer)?
                }
                _ => return Err(Error::Inconsistent("an argument without a binding")),
            };
            self.line(&format!("const {ty} {name} = {};", bare(&value)));
        }
        Ok(())
    }

    fn builtin(&mut self, binding: &Binding, size: [u32; 3]) -> Result<String, Error> {
        let Binding::BuiltIn(builtin) = *binding else {
            return Err(Error::Inconsistent("a compute shader with inputs at locations"));
        };
        let mut texts = self.builtin_texts(builtin, size)?;
        match texts.len() {
            1 => Ok(texts.remove(0)),
            _ => self.program.vector(VectorSize::Tri, Scalar::U32, &texts),
        }
    }

    fn builtin_texts(&mut self, builtin: BuiltIn, size: [u32; 3]) -> Result<Vec<String>, Error> {
        self.program.scalar(Scalar::U32)?;
        self.program.needs.subgroups |= matches!(
            builtin,
            BuiltIn::SubgroupSize
                | BuiltIn::SubgroupInvocationId
                | BuiltIn::SubgroupId
                | BuiltIn::NumSubgroups
        );
        self.program.target.builtin(builtin, size).ok_or(Error::UnsupportedBuiltIn(builtin))
    }

    /// What a call passes on for the callee's use of the module's variables.
    pub(crate) fn passed_globals(&mut self, callee: Handle<Function>) -> Result<Vec<String>, Error> {
        let module = self.program.module;
        let mut arguments = Vec::new();
        for (global, sized) in self.program.used_globals(&self.program.info[callee])? {
            let variable = &module.global_variables[global];
            let name = &self.program.names[&NameKey::GlobalVariable(global)];
            let pointer = self.is_pointer(variable) || is_runtime_array(module, variable.ty);
            arguments.push(if pointer { name.clone() } else { format!("&{name}") });
            if sized {
                arguments.push(self.program.size_names[&global].clone());
            }
        }
        Ok(arguments)
    }
}
