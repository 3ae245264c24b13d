//! What one Rust file says about modules: the modules it declares, the names it imports and the paths it uses.
//! Code that is built for tests, fuzzing or the test kit only is left out.

use std::collections::BTreeSet;

use crate::rust_source::RustSource;

/// A path such as `crate::log::record`, one part a segment.
pub(crate) type Path = Vec<String>;

/// One name that a `use` brings into a module.
#[derive(Debug, PartialEq)]
pub(crate) struct Import {
    pub(crate) path: Path,
    /// The name in the importing module; `*` for all names of `path`.
    pub(crate) name: String,
    pub(crate) line: usize,
}

/// A module that is declared in another.
#[derive(Debug, PartialEq)]
pub(crate) struct Child {
    pub(crate) name: String,
    /// None when the module has a file of its own.
    pub(crate) body: Option<ModuleSource>,
}

/// One module as its source shows it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ModuleSource {
    pub(crate) children: Vec<Child>,
    pub(crate) imports: Vec<Import>,
    /// Paths of two segments or more outside of `use`, with their lines.
    pub(crate) paths: Vec<(Path, usize)>,
    /// Types, functions and other items that the module itself defines.
    pub(crate) defined: BTreeSet<String>,
}

impl ModuleSource {
    pub(crate) fn parse(text: &str) -> Self {
        let source = RustSource::parse(text);
        let mut parser = Parser { tokens: tokens(&source), at: 0 };
        parser.module()
    }
}

struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// Identifiers, `::` and single characters.
fn tokens(source: &RustSource) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    for (index, text) in source.lines().iter().enumerate() {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if rest.starts_with("::") {
                2
            } else if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            found.push(Token { text: &rest[..length], line: index + 1 });
            rest = rest[length..].trim_start();
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl Parser<'_> {
    /// The text of the token that is `ahead` tokens away; empty behind the end.
    fn peek(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn peek_is_word(&self, ahead: usize) -> bool {
        self.peek(ahead).starts_with(is_word)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |token| token.line)
    }

    /// Reads up to the end of the file, or past the brace that closes an inline module.
    fn module(&mut self) -> ModuleSource {
        const DEFINES: [&str; 8] = ["struct", "enum", "trait", "fn", "const", "static", "type", "union"];
        let mut module = ModuleSource::default();
        let mut depth = 0usize;
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "{" => depth += 1,
                "}" if depth == 0 => {
                    self.at += 1;
                    return module;
                }
                "}" => depth -= 1,
                "#" => {
                    self.attribute();
                    continue;
                }
                "use" if self.peek(1) != "<" => {
                    self.at += 1;
                    self.use_tree(&[], &mut module.imports);
                    continue;
                }
                "mod" if depth == 0 && self.peek_is_word(1) => {
                    module.children.push(self.child());
                    continue;
                }
                keyword if depth == 0 && DEFINES.contains(&keyword) && self.peek_is_word(1) => {
                    module.defined.insert(self.peek(1).to_owned());
                }
                _ if self.peek_is_word(0) && self.peek(1) == "::" => {
                    let line = self.line();
                    let path = self.path();
                    if path.len() > 1 {
                        module.paths.push((path, line));
                    }
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        module
    }

    /// `mod name;` or `mod name { … }`.
    fn child(&mut self) -> Child {
        let name = self.peek(1).to_owned();
        let inline = self.peek(2) == "{";
        self.at += 3;
        Child { name, body: inline.then(|| self.module()) }
    }

    /// `a::b::C`; stops before generic arguments.
    fn path(&mut self) -> Path {
        let mut path = vec![self.peek(0).to_owned()];
        self.at += 1;
        while self.peek(0) == "::" && self.peek_is_word(1) {
            path.push(self.peek(1).to_owned());
            self.at += 2;
        }
        path
    }

    /// One tree of a `use`, with all trees in its braces; `;` and `,` behind it are passed.
    fn use_tree(&mut self, prefix: &[String], imports: &mut Vec<Import>) {
        let mut path = prefix.to_vec();
        let line = self.line();
        loop {
            match self.peek(0) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(0), "}" | "") {
                        self.use_tree(&path, imports);
                    }
                    self.at += 1;
                }
                "," | ";" => {
                    self.at += 1;
                    return;
                }
                "}" | "" => return,
                "*" => {
                    imports.push(Import { path: path.clone(), name: "*".into(), line });
                    self.at += 1;
                }
                // Without braces the last segment is the name; `self` in braces stands for the path before them.
                _ => {
                    let mut segments = self.path();
                    if segments == ["self"] && !path.is_empty() {
                        segments.clear();
                    }
                    path.extend(segments);
                    if self.peek(0) == "::" {
                        continue;
                    }
                    let mut name = path.last().cloned().unwrap_or_default();
                    if self.peek(0) == "as" {
                        name = self.peek(1).to_owned();
                        self.at += 2;
                    }
                    imports.push(Import { path: path.clone(), name, line });
                }
            }
        }
    }

    /// Passes an attribute, and the item behind it when that is built for tests only.
    fn attribute(&mut self) {
        let start = self.at;
        while !matches!(self.peek(0), "[" | "") {
            self.at += 1;
        }
        self.pass_group();
        let words: Vec<&str> = self.tokens[start..self.at].iter().map(|token| token.text).collect();
        // The one feature is the test kit's.
        if words.get(2) == Some(&"cfg")
            && words.iter().any(|word| matches!(*word, "test" | "fuzzing" | "feature"))
            && !words.contains(&"not")
        {
            self.pass_item();
        }
    }

    /// Passes what an opening bracket at this place encloses.
    fn pass_group(&mut self) {
        let mut depth = 0usize;
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Passes an item up to its `;` or the end of its body; a field or a variant up to its comma.
    fn pass_item(&mut self) {
        while self.peek(0) == "#" {
            self.attribute();
        }
        const ITEMS: [&str; 14] = [
            "async", "const", "enum", "fn", "impl", "let", "mod", "pub", "static", "struct", "trait", "type",
            "unsafe", "use",
        ];
        let item = ITEMS.contains(&self.peek(0));
        let import = self.tokens[self.at..].iter().map(|token| token.text).take(5).any(|word| word == "use");
        while self.at < self.tokens.len() {
            match self.peek(0) {
                ";" => {
                    self.at += 1;
                    return;
                }
                "," if !item => {
                    self.at += 1;
                    return;
                }
                "}" => return,
                "{" => {
                    self.pass_group();
                    if !import {
                        return;
                    }
                }
                "(" | "[" => self.pass_group(),
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ModuleSource;

    fn imports(text: &str) -> Vec<String> {
        let imports = ModuleSource::parse(text).imports;
        imports
            .iter()
            .map(|import| format!("{}={}@{}", import.name, import.path.join("::"), import.line))
            .collect()
    }

    fn paths(text: &str) -> Vec<String> {
        ModuleSource::parse(text)
            .paths
            .iter()
            .map(|(path, line)| format!("{}@{line}", path.join("::")))
            .collect()
    }

    #[test]
    fn a_use_without_braces_is_one_import() {
        assert_eq!(imports("use crate::log::Record;\n"), ["Record=crate::log::Record@1"]);
        assert_eq!(imports("pub use super::a as b;\n"), ["b=super::a@1"]);
        assert_eq!(imports("pub(crate) use self::a::*;\n"), ["*=self::a@1"]);
    }

    #[test]
    fn braces_are_as_many_imports_as_they_hold() {
        let text = "use crate::{\n  a::{self, B, c::D as E},\n  f::*,\n};\nuse g::H;\n";
        let expected = ["a=crate::a@2", "B=crate::a::B@2", "E=crate::a::c::D@2", "*=crate::f@3", "H=g::H@5"];
        assert_eq!(imports(text), expected);
    }

    #[test]
    fn a_capture_of_lifetimes_is_no_import() {
        assert_eq!(
            imports("fn a(b: &u8) -> impl Iterator<Item = u8> + use<'_> {}\nuse c::D;\n"),
            ["D=c::D@2"]
        );
    }

    #[test]
    fn paths_in_code_are_found() {
        let text = "fn a(b: crate::log::Record) -> super::E {\n  let c = record::parse::<u8>(\"crate::x\");\n  // crate::y\n  Vec::new()\n}\n";
        assert_eq!(paths(text), ["crate::log::Record@1", "super::E@1", "record::parse@2", "Vec::new@4"]);
    }

    #[test]
    fn visibility_is_no_path() {
        assert_eq!(paths("pub(crate) struct A(pub(super) u8);\n"), Vec::<String>::new());
    }

    #[test]
    fn items_and_modules_are_distinguished() {
        let module =
            ModuleSource::parse("mod a;\nmod b {\n  pub fn c() {\n  }\n}\nconst fn d() { fn e() {} }\n");
        let children: Vec<_> =
            module.children.iter().map(|child| (child.name.as_str(), child.body.is_some())).collect();
        assert_eq!(children, [("a", false), ("b", true)]);
        let inline = module.children[1].body.as_ref().unwrap();
        assert!(inline.defined.contains("c"));
        assert!(module.defined.contains("d") && !module.defined.contains("e"));
    }

    #[test]
    fn what_is_built_for_tests_only_is_left_out() {
        let text = "#[cfg(test)]\n#[allow(x)]\nmod tests {\n  use a::A;\n}\n#[cfg(any(test, fuzzing))]\npub mod checks;\n\
            #[cfg(test)]\nuse b::{B, C};\n#[cfg(test)]\nfn d<T, U>() -> [u8; 2] {\n  e::f()\n}\n\
            struct G {\n  #[cfg(test)]\n  h: i::J,\n  k: l::M,\n}\n#[cfg(unix)]\nuse n::O;\n";
        assert_eq!(imports(text), ["O=n::O@20"]);
        assert_eq!(paths(text), ["l::M@17"]);
        assert_eq!(ModuleSource::parse(text).children, []);
    }
}
