//! Which module of a crate uses which. The children of a module, each with all that is below it, must form a graph
//! without circles, so that a reader can take the modules one after the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::module_source::{Child, ModuleSource};
use crate::{assert_none, root};

/// One module of the tree.
struct Module {
    /// Names from the root of the crate; empty for the root.
    path: Vec<String>,
    file: String,
    source: ModuleSource,
    children: BTreeMap<String, usize>,
    parent: Option<usize>,
}

/// What a path leads to.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item that this module defines.
    ItemOf(usize),
}

impl Target {
    fn module(self) -> usize {
        match self {
            Self::Module(module) | Self::ItemOf(module) => module,
        }
    }
}

/// Modules of one level that use each other in a circle.
struct Circle {
    /// Path of the module whose children they are; `crate` for the root.
    level: String,
    modules: Vec<String>,
    /// One line for each pair: which module uses which, and where.
    edges: Vec<String>,
}

/// Where a module names another, as `file:line`.
type Places = BTreeSet<(String, usize)>;
/// The edges between the children of one module.
type Level = BTreeMap<(String, String), Places>;

/// The modules of one crate.
struct ModuleGraph {
    modules: Vec<Module>,
}

impl ModuleGraph {
    /// Reads a crate from its root file. `read` gives the text of a file, if there is one.
    fn read(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Self {
        let text = read(root).unwrap_or_else(|| panic!("{root} is not there"));
        let mut graph = Self { modules: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        graph.add(None, Vec::new(), root, &folder, ModuleSource::parse(&text), read);
        graph
    }

    /// Adds a module and all below it; the files of its children are in `folder`.
    fn add(
        &mut self,
        parent: Option<usize>,
        path: Vec<String>,
        file: &str,
        folder: &str,
        mut source: ModuleSource,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> usize {
        let declared = std::mem::take(&mut source.children);
        let id = self.modules.len();
        let children = BTreeMap::new();
        self.modules.push(Module { path: path.clone(), file: file.into(), source, children, parent });
        for Child { name, body } in declared {
            let mut child_path = path.clone();
            child_path.push(name.clone());
            let child_folder = format!("{folder}/{name}");
            let (child_file, child_source) = match body {
                Some(body) => (file.to_owned(), body),
                None => [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]
                    .into_iter()
                    .find_map(|file| read(&file).map(|text| (file, ModuleSource::parse(&text))))
                    .unwrap_or_else(|| panic!("{file}: no file of module {name}")),
            };
            let child = self.add(Some(id), child_path, &child_file, &child_folder, child_source, read);
            self.modules[id].children.insert(name, child);
        }
        id
    }

    /// All circles, from the root downwards.
    fn circles(&self) -> Vec<Circle> {
        let levels = self.levels();
        levels.iter().flat_map(|(level, edges)| circles_of(level, edges)).collect()
    }

    /// The edges at each level, by the path of the module whose children they connect.
    fn levels(&self) -> BTreeMap<String, Level> {
        let mut levels: BTreeMap<String, Level> = BTreeMap::new();
        for (from, module) in self.modules.iter().enumerate() {
            let imports = module.source.imports.iter().map(|import| (&import.path, import.line));
            let paths = module.source.paths.iter().map(|(path, line)| (path, *line));
            for (path, line) in imports.chain(paths) {
                let Some(target) = self.resolve(from, path, 0) else { continue };
                let target = &self.modules[target.module()];
                let shared = module.path.iter().zip(&target.path).take_while(|(a, b)| a == b).count();
                let (Some(user), Some(used)) = (module.path.get(shared), target.path.get(shared)) else {
                    continue;
                };
                let level = levels.entry(level_name(&module.path[..shared])).or_default();
                let places = level.entry((user.clone(), used.clone())).or_default();
                places.insert((module.file.clone(), line));
            }
        }
        levels
    }

    /// What `path` leads to when module `from` names it; none when it leads out of the crate or is a local name.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<Target> {
        // An import may name itself, as `use log::log;` does for another crate's function.
        const DEPTH_MAX: usize = 16;
        if depth > DEPTH_MAX {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(from),
            "super" => Target::Module(self.modules[from].parent?),
            name => self.known_name(from, name, depth)?,
        };
        while let (Target::Module(module), Some((name, behind))) = (target, rest.split_first()) {
            rest = behind;
            target = match name.as_str() {
                "super" => Target::Module(self.modules[module].parent?),
                // What another crate defines counts as the re-exporting module's.
                name => self.known_name(module, name, depth).unwrap_or(Target::ItemOf(module)),
            };
        }
        Some(target)
    }

    /// What `name` is in `module`: a child, an import or an item of its own.
    fn known_name(&self, module: usize, name: &str, depth: usize) -> Option<Target> {
        let Module { source, children, .. } = &self.modules[module];
        if let Some(child) = children.get(name) {
            return Some(Target::Module(*child));
        }
        if source.defined.contains(name) {
            return Some(Target::ItemOf(module));
        }
        if let Some(import) = source.imports.iter().find(|import| import.name == name) {
            return self.resolve(module, &import.path, depth + 1);
        }
        source.imports.iter().filter(|import| import.name == "*").find_map(|import| {
            match self.resolve(module, &import.path, depth + 1)? {
                Target::Module(origin) if origin != module => self.known_name(origin, name, depth + 1),
                _ => None,
            }
        })
    }
}

fn level_name(path: &[String]) -> String {
    std::iter::once("crate").chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join("::")
}

/// The sets of modules that reach each other.
fn circles_of(level: &str, edges: &Level) -> Vec<Circle> {
    let names: BTreeSet<&str> = edges.keys().flat_map(|(user, used)| [user.as_str(), used]).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        names.iter().map(|name| (*name, reached_from(name, edges))).collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names {
        let circle: BTreeSet<&str> =
            reached[name].iter().copied().filter(|other| reached[other].contains(name)).collect();
        if circle.is_empty() || !seen.insert(circle.clone()) {
            continue;
        }
        let within = |(user, used): &(String, String)| {
            circle.contains(user.as_str()) && circle.contains(used.as_str())
        };
        circles.push(Circle {
            level: level.to_owned(),
            modules: circle.iter().map(|name| (*name).to_owned()).collect(),
            edges: edges
                .iter()
                .filter(|(pair, _)| within(pair))
                .map(|(pair, places)| describe(pair, places))
                .collect(),
        });
    }
    circles
}

/// All modules that can be reached from `start` by one edge or more.
fn reached_from<'a>(start: &str, edges: &'a Level) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(name) = open.pop() {
        for (_, used) in edges.keys().filter(|(user, _)| user == name) {
            if reached.insert(used.as_str()) {
                open.push(used);
            }
        }
    }
    reached
}

fn describe((user, used): &(String, String), places: &Places) -> String {
    let places: Vec<String> = places.iter().map(|(file, line)| format!("{file}:{line}")).collect();
    format!("{user} → {used}: {}", places.join(" "))
}

#[test]
fn modules_use_each_other_one_way() {
    let mut offenders = Vec::new();
    for folder in ["src", "raft/src", "storage/src"] {
        let read = |path: &str| std::fs::read_to_string(root().join(path)).ok();
        for circle in ModuleGraph::read(&format!("{folder}/lib.rs"), &read).circles() {
            let (level, modules) = (circle.level, circle.modules.join(" "));
            offenders.push(format!("{folder} {level}: {modules}:\n      {}", circle.edges.join("\n      ")));
        }
    }
    assert_none("circles of modules", &offenders);
}

#[cfg(test)]
mod tests {
    use super::ModuleGraph;

    /// The circles of a crate of these files, as `level: modules`.
    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let read =
            |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
        let circles = ModuleGraph::read("src/lib.rs", &read).circles();
        circles.iter().map(|circle| format!("{}: {}", circle.level, circle.modules.join(" "))).collect()
    }

    #[test]
    fn one_way_is_no_circle() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\n"),
            ("src/a.rs", "use crate::b::B;\n"),
            ("src/b.rs", "pub struct B;\n"),
        ];
        assert_eq!(circles(&files), Vec::<String>::new());
    }

    #[test]
    fn modules_that_use_each_other_are_a_circle() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("src/a/mod.rs", "mod deep;\n"),
            ("src/a/deep.rs", "fn f() { crate::b::g() }\n"),
            ("src/b.rs", "use super::c::C;\n"),
            ("src/c.rs", "use crate::{a::deep};\n"),
        ];
        assert_eq!(circles(&files), ["crate: a b c"]);
    }

    #[test]
    fn a_re_export_counts_where_the_item_is_defined() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\nmod c;\npub use c::*;\npub use b::B;\n"),
            ("src/a.rs", "pub struct A;\nuse crate::B;\nuse crate::C;\n"),
            ("src/b.rs", "pub struct B;\nuse crate::a::A;\n"),
            ("src/c.rs", "pub struct C;\n"),
        ];
        assert_eq!(circles(&files), ["crate: a b"]);
    }

    #[test]
    fn children_are_compared_with_each_other_only() {
        let files = [
            ("src/lib.rs", "mod a;\n"),
            ("src/a/mod.rs", "mod b;\nmod c;\npub struct Own;\nuse b::B;\n"),
            ("src/a/b.rs", "pub struct B;\nuse super::Own;\nuse super::c::C;\n"),
            ("src/a/c.rs", "pub struct C;\nfn f() { super::b::g() }\n"),
        ];
        assert_eq!(circles(&files), ["crate::a: b c"]);
    }

    #[test]
    fn an_imported_module_is_followed() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\n"),
            ("src/a/mod.rs", "pub mod x;\npub mod y;\n"),
            ("src/a/x.rs", "use crate::a;\nfn f() { a::y::g() }\n"),
            ("src/a/y.rs", "use super::x;\n"),
            ("src/b.rs", "use other::a;\nuse log::log;\n"),
        ];
        assert_eq!(circles(&files), ["crate::a: x y"]);
    }
}
