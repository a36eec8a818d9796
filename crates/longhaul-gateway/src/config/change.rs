//! What one configuration says otherwise than another.

use std::collections::BTreeSet;

use super::{Config, written::Written};

/// What has changed of the entries of one section, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changed {
    /// Those that were not there.
    pub added: Vec<String>,
    /// Those that were there and say something else now; programs also where other variables are kept from them.
    pub changed: Vec<String>,
    /// Those that are not there any more.
    pub removed: Vec<String>,
}

impl Changed {
    /// Whether nothing has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    /// Leaves out the others.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        for names in [&mut self.added, &mut self.changed, &mut self.removed] {
            names.retain(|name| keep(name));
        }
    }

    /// Those that are to be served from here on as they are now.
    pub fn put(&self) -> impl Iterator<Item = &str> {
        self.added.iter().chain(&self.changed).map(String::as_str)
    }
}

/// What a configuration says otherwise than the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Of the commands.
    pub tools: Changed,
    /// Of the APIs of jobs.
    pub jobs: Changed,
    /// Of the servers that are served on.
    pub servers: Changed,
    /// The sections that hold for a whole process: what they say now takes effect when the next one starts.
    pub at_next_start: Vec<String>,
}

impl Config {
    /// What this says otherwise than `before`.
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul_gateway::config::check;
    ///
    /// let before = check("longhaul.toml", "[tools.a]\ncommand = [\"a\"]\n[tools.b]\ncommand = [\"b\"]")?.config;
    /// let after = check("longhaul.toml", "[tools.a]\ncommand = [\"a\", \"-v\"]\n[http]\nhttp2 = true")?.config;
    /// let changes = after.changes_since(&before);
    /// assert_eq!((changes.tools.changed, changes.tools.removed), (vec!["a".to_owned()], vec!["b".to_owned()]));
    /// assert_eq!(changes.at_next_start, ["http"]);
    /// # Ok::<(), longhaul_gateway::config::Diagnostics>(())
    /// ```
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Changes {
        let (now, then) = (&self.written, &before.written);
        let inherits_other = self.withheld != before.withheld;
        let differs = |now: &toml::Value, then: &toml::Value| {
            now != then || inherits_other && now.get("command").is_some()
        };
        let of = |section| Changed {
            added: names(now, section, |name| then.entry(section, name).is_none()),
            changed: names(now, section, |name| {
                let both = now.entry(section, name).zip(then.entry(section, name));
                both.is_some_and(|(now, then)| differs(now, then))
            }),
            removed: names(then, section, |name| now.entry(section, name).is_none()),
        };
        let sections: BTreeSet<&String> = now.sections().chain(then.sections()).collect();
        let waits = |section: &&&String| {
            !SERVED.contains(&section.as_str()) && now.section(section) != then.section(section)
        };
        Changes {
            tools: of("tools"),
            jobs: of("jobs"),
            servers: of("servers"),
            at_next_start: sections.iter().filter(waits).map(|section| (*section).clone()).collect(),
        }
    }
}

impl Config {
    /// This as far as it could be taken over: the tools, jobs and `servers` of these names are as they were `before`.
    #[must_use]
    pub fn but_for(mut self, tools: &BTreeSet<String>, servers: &BTreeSet<String>, before: &Self) -> Self {
        for name in tools {
            for section in ["tools", "jobs"] {
                self.written.put_back(section, name, &before.written);
            }
        }
        for name in servers {
            self.written.put_back("servers", name, &before.written);
        }
        put_back(&mut self.tools, &before.tools, tools, |tool| &tool.name);
        put_back(&mut self.jobs, &before.jobs, tools, |job| &job.name);
        put_back(&mut self.servers, &before.servers, servers, |server| &server.name);
        self
    }
}

/// Has those of these names be as they were, each where it is: the order of servers says which of two has a name.
fn put_back<T: Clone>(
    now: &mut Vec<T>,
    before: &[T],
    names: &BTreeSet<String>,
    name: impl Fn(&T) -> &String,
) {
    let is_left = |item: &&T| names.contains(name(item));
    let mut gone: Vec<&T> = before.iter().filter(is_left).collect();
    now.retain_mut(|item| {
        if !is_left(&&*item) {
            return true;
        }
        let was = gone.iter().position(|was| name(was) == name(item)).map(|place| gone.remove(place));
        was.inspect(|was| item.clone_from(was)).is_some()
    });
    // Of these nothing is said here any more.
    now.extend(gone.into_iter().cloned());
}

fn names(written: &Written, section: &str, is_so: impl Fn(&str) -> bool) -> Vec<String> {
    written.entries(section).filter(|(name, _)| is_so(name)).map(|(name, _)| name.clone()).collect()
}

/// The sections of what is served, which can change while it is.
const SERVED: [&str; 3] = ["tools", "jobs", "servers"];

#[cfg(test)]
mod tests {
    use crate::config::{Changes, check};

    fn changes(before: &str, after: &str) -> Changes {
        let config = |text| check("longhaul.toml", text).unwrap().config;
        config(after).changes_since(&config(before))
    }

    #[test]
    fn what_means_the_same_has_not_changed() {
        let before =
            "[tools.t]\ncommand = [\"x\"] # as ever\ninput.a = { type = \"string\", required = false }\n";
        let after =
            "[http]\n[tools.t]\ninput.a.required = false\ninput.a.type = 'string'\ncommand = [ 'x' ]\n";
        let found = changes(before, after);
        assert_eq!(found, Changes::default());
    }

    #[test]
    fn each_entry_is_told_of_by_its_name() {
        let before = "[servers.a]\ncommand = [\"a\"]\n[servers.b]\ncommand = [\"b\"]\n[auth.tokens.t]\nfrom = \"env:A\"\n";
        let after = "[servers.b]\ncommand = [\"b\", \"c\"]\n[servers.d]\ncommand = [\"d\"]\n[auth.tokens.t]\nfrom = \"env:B\"\n";
        let found = changes(before, after);
        assert_eq!(found.servers.added, ["d"]);
        assert_eq!(found.servers.changed, ["b"]);
        assert_eq!(found.servers.removed, ["a"]);
        assert_eq!(found.servers.put().collect::<Vec<_>>(), ["d", "b"]);
        assert_eq!(found.at_next_start, ["auth"]);
    }

    fn set<C: FromIterator<String>>(names: &[&str]) -> C {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_could_not_be_taken_over_is_told_of_again() {
        let config = |text: &str| check("longhaul.toml", text).unwrap().config;
        let job = |name: &str| {
            format!(
                "[jobs.{name}]\nid = \"/id\"\nstart.url = \"https://api.example/jobs\"\nstatus.url = \"https://api.example/jobs/{{job}}\"\nstatus.state = \"/state\"\nstatus.done = \"ok\"\n"
            )
        };
        let before =
            config(&format!("[tools.a]\ncommand = [\"a\"]\n[tools.b]\ncommand = [\"b\"]\n{}", job("c")));
        let text = "[tools.a]\ncommand = [\"a\", \"-v\"]\n[tools.c]\ncommand = [\"c\"]\nenv.T = { from = \"env:T\" }\n[tools.d]\ncommand = [\"d\"]\n[servers.s]\ncommand = [\"s\"]\n";
        let after = config(text);
        let in_force = after.clone().but_for(&set(&["a", "c"]), &set(&["s"]), &before);
        assert_eq!(in_force.names().collect::<Vec<_>>(), ["a", "d", "c"], "as they were, or not at all");
        assert_eq!(in_force.tool("a").unwrap().signature(), before.tool("a").unwrap().signature());
        assert!(in_force.tool("c").is_none() && in_force.jobs[0].name == "c" && in_force.servers.is_empty());
        let mut taken = after.changes_since(&before).tools;
        taken.retain(|name| !["a", "c"].contains(&name));
        assert_eq!((taken.added, taken.changed, taken.removed), (set(&["d"]), set(&[]), set(&["b"])));
        // What is kept from programs is kept as it says now.
        let again = after.changes_since(&in_force);
        assert_eq!((again.tools.added, again.tools.changed), (set(&["c"]), set(&["a"])));
        assert_eq!((again.jobs.removed, again.servers.added), (set(&["c"]), set(&["s"])));
        assert_eq!(after.changes_since(&after), Changes::default());
    }

    #[test]
    fn what_could_not_be_taken_over_stays_at_its_place() {
        let config = |text: &str| check("longhaul.toml", text).unwrap().config;
        let server = |name: &str, word: &str| format!("[servers.{name}]\ncommand = [{word:?}]\n");
        let before = config(&[server("a", "a"), server("b", "b"), server("c", "c")].concat());
        let after =
            config(&[server("a", "new"), server("d", "d"), server("e", "e"), server("b", "new")].concat());
        let in_force = after.but_for(&set(&[]), &set(&["a", "c", "e"]), &before);
        let names: Vec<&str> = in_force.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["a", "d", "b", "c"]);
        let shown = |server| format!("{server:?}");
        assert_eq!(shown(&in_force.servers[0]), shown(&before.servers[0]), "it is as it was");
    }

    #[test]
    fn a_program_from_which_something_else_is_kept_has_changed() {
        let before = "[tools.t]\ncommand = [\"t\"]\n[servers.a]\ncommand = [\"a\"]\n[servers.b]\nurl = \"https://b.example/mcp\"\n";
        let headers = "[servers.b.headers]\nAuthorization = { from = \"env:TOKEN\" }\n";
        let found = changes(before, &format!("{before}{headers}"));
        assert_eq!((found.tools.changed, found.servers.changed), (set(&["t"]), set(&["a", "b"])));
    }
}
