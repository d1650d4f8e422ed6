//! Reads a connection string in the two forms of libpq (PostgreSQL's manual, "Connection Strings")
//! into its parameters. No fault shows a piece of the text: any piece may be of a password.

/// One parameter of a connection string.
#[derive(PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) keyword: String,
    pub(super) value: String,
}

type Parameters = Vec<Parameter>;

const PERCENT: &str = "has a % that is not followed by two hexadecimal digits of UTF-8 text";
const STRAY_AT: &str = "has an @ behind its host: in a URL, characters such as @ : / ? # % of a password \
                        must be percent-encoded";

/// The parameters, later ones overriding earlier ones of the same keyword.
///
/// # Errors
/// What is wrong, as the rest of a sentence whose subject is the setting.
pub(super) fn read(text: &str) -> Result<Parameters, &'static str> {
    let text = text.trim();
    let url = ["postgresql://", "postgres://"];
    let parameters = match url.iter().find_map(|scheme| text.strip_prefix(scheme)) {
        Some(rest) => read_url(rest)?,
        None if text.contains("://") => {
            return Err(
                "must begin with postgres:// or postgresql://, or be pairs of keyword=value",
            );
        }
        None => read_pairs(text)?,
    };
    if parameters.iter().any(|one| one.value.contains('\0')) {
        return Err("has a NUL character");
    }
    Ok(parameters)
}

fn read_url(rest: &str) -> Result<Parameters, &'static str> {
    let mut found = Parameters::new();
    let mut add = |keyword: &str, value: &str| -> Result<(), &'static str> {
        let value = decode(value)?;
        if !value.is_empty() {
            found.push(Parameter {
                keyword: keyword.to_owned(),
                value,
            });
        }
        Ok(())
    };
    let mut rest = rest;
    let login_end = rest.find(['@', '/']);
    if let Some(end) = login_end.filter(|end| rest[*end..].starts_with('@')) {
        let (user, password) = rest[..end].split_once(':').unwrap_or((&rest[..end], ""));
        add("user", user)?;
        add("password", password)?;
        rest = &rest[end + 1..];
    }
    let hosts_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (hosts, path) = rest.split_at(hosts_end);
    let (database, query) = path.split_once('?').unwrap_or((path, ""));
    if hosts.contains('@') || database.contains('@') {
        return Err(STRAY_AT);
    }
    let (hosts, ports) = read_hosts(hosts)?;
    add("host", &hosts)?;
    add("port", &ports)?;
    add("dbname", database.strip_prefix('/').unwrap_or(database))?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (keyword, value) = pair
            .split_once('=')
            .ok_or("has a parameter without = behind its ?")?;
        match (decode(keyword)?.as_str(), value) {
            // What other drivers write.
            ("ssl", "true") => add("sslmode", "require")?,
            (keyword, value) => add(keyword, value)?,
        }
    }
    Ok(found)
}

/// Hosts and ports as lists with commas; the ports are empty where none is named.
fn read_hosts(text: &str) -> Result<(String, String), &'static str> {
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for one in text.split(',') {
        let (host, port) = match one.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']').ok_or("has a [ without its ]")?;
                let port = rest.strip_prefix(':').unwrap_or(rest);
                if port.len() == rest.len() && !rest.is_empty() {
                    return Err("has something other than a port behind its ]");
                }
                (address, port)
            }
            None => one.split_once(':').unwrap_or((one, "")),
        };
        hosts.push(host);
        ports.push(port);
    }
    let ports = if ports.iter().all(|port| port.is_empty()) {
        String::new()
    } else {
        ports.join(",")
    };
    // One empty name only: no host is named.
    let hosts = hosts.join(",");
    Ok((hosts, ports))
}

fn decode(text: &str) -> Result<String, &'static str> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || (bytes.next().unwrap_or_default() as char).to_digit(16);
        let (high, low) = (digit().ok_or(PERCENT)?, digit().ok_or(PERCENT)?);
        decoded.push(u8::try_from(high * 16 + low).map_err(|_| PERCENT)?);
    }
    String::from_utf8(decoded).map_err(|_| PERCENT)
}

fn read_pairs(text: &str) -> Result<Parameters, &'static str> {
    let mut found = Parameters::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (keyword, behind) = rest.split_once('=').ok_or(
            "has a word without = behind it, and a value with spaces must stand in quotes",
        )?;
        let keyword = keyword.trim_end();
        if keyword.contains(char::is_whitespace) {
            return Err(
                "has a word without = behind it, and a value with spaces must stand in quotes",
            );
        }
        let (value, behind) = read_value(behind.trim_start())?;
        found.push(Parameter {
            keyword: keyword.to_owned(),
            value,
        });
        rest = behind.trim_start();
    }
    found.retain(|one| !one.value.is_empty());
    Ok(found)
}

/// A value, in quotes or up to the next space, and what is behind it.
fn read_value(text: &str) -> Result<(String, &str), &'static str> {
    let (quoted, text) = match text.strip_prefix('\'') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, &text[at + 1..])),
            _ if !quoted && letter.is_whitespace() => return Ok((value, &text[at..])),
            _ => value.push(letter),
        }
    }
    if quoted {
        return Err("has a quote that is not closed");
    }
    Ok((value, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let found = read(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        found
            .into_iter()
            .map(|one| (one.keyword, one.value))
            .collect()
    }

    fn shown(text: &str) -> String {
        let pairs = pairs(text).into_iter();
        let shown: Vec<String> = pairs
            .map(|(keyword, value)| format!("{keyword}={value}"))
            .collect();
        shown.join("|")
    }

    #[test]
    fn urls_are_read_as_libpq_does() {
        for (url, expected) in [
            ("postgres://", ""),
            ("postgresql://localhost", "host=localhost"),
            ("postgres://localhost:5433", "host=localhost|port=5433"),
            ("postgres://h/db", "host=h|dbname=db"),
            ("postgres://u@h", "user=u|host=h"),
            (
                "postgres://u:s%40%2Fp%3A@h:1/d%20b",
                "user=u|password=s@/p:|host=h|port=1|dbname=d b",
            ),
            (
                "postgres://u:a?b#c@h/d",
                "user=u|password=a?b#c|host=h|dbname=d",
            ),
            ("postgres://a,b:2/d", "host=a,b|port=,2|dbname=d"),
            (
                "postgres://[2001:db8::1]:7/d",
                "host=2001:db8::1|port=7|dbname=d",
            ),
            ("postgres://%2Fvar%2Frun/d", "host=/var/run|dbname=d"),
            (
                "postgres:///d?host=/tmp&port=9",
                "dbname=d|host=/tmp|port=9",
            ),
            (
                "postgres://h?sslmode=verify-full",
                "host=h|sslmode=verify-full",
            ),
            ("postgres://h/?ssl=true", "host=h|sslmode=require"),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
    }

    #[test]
    fn pairs_are_read_as_libpq_does() {
        for (text, expected) in [
            ("", ""),
            ("host=h port = 5 user= 'a b'", "host=h|port=5|user=a b"),
            (
                r"password='it\'s \\ me' dbname=x\ y",
                r"password=it's \ me|dbname=x y",
            ),
            ("password='' host=h", "host=h"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn faults_show_no_piece_of_the_text() {
        for text in [
            "postgres://u:secret@x@h/d",
            "postgres://u:12/secret@h/d",
            "postgres://u:sec%ret@h/d",
            "postgres://u:%ffsecret@h/d",
            "postgres://[secret/d",
            "postgres://[::1]secret/d",
            "postgres://h/d?secret",
            "mysql://u:secret@h",
            "password=my secret host=h",
            "password='secret",
            "secret",
        ] {
            let fault = read(text).err().unwrap_or_else(|| panic!("{text}"));
            assert!(!fault.contains("secret"), "{fault}");
        }
    }
}
