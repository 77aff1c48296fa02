//! Text to tokens.

use super::trouble::Trouble;

/// A piece of the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A whole number.
    Int(i64),
    /// A fraction.
    Float(f64),
    /// A name.
    Name(String),
    /// Text between quotes.
    Text(String),
    /// An operator, bracket or comma.
    Sign(&'static str),
}

/// Longer ones first, so that `**` is not read as `*`, `*`.
const SIGNS: [&str; 28] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+", "-", "*", "/", "%", "@", "<", ">", "&", "|", "^", "~", "(",
    ")", "[", "]", ",", "=", ":", ".",
];

/// Whether the text is a name from its first letter to its last.
pub fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && letters.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// The tokens with the bytes at which they begin.
pub fn tokens(text: &str) -> Result<Vec<(Token, usize)>, Trouble> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) {
        let first = rest.chars().next().unwrap_or_default();
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let second_is_digit = rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        let (token, length) = if first.is_ascii_digit() || (first == '.' && second_is_digit) {
            number(rest, at)?
        } else if first == '_' || first.is_ascii_alphabetic() {
            let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            (Token::Name(rest.get(..end).unwrap_or_default().to_string()), end)
        } else if first == '"' || first == '\'' {
            let inside = rest.get(1..).unwrap_or_default();
            let end = inside.find(first).ok_or_else(|| Trouble::new(at, "this text has no closing quote"))?;
            (Token::Text(inside.get(..end).unwrap_or_default().to_string()), end + 2)
        } else {
            let sign = SIGNS.iter().find(|s| rest.starts_with(**s));
            let sign = sign.ok_or_else(|| Trouble::new(at, format!("the character {first:?} has no meaning here")))?;
            (Token::Sign(sign), sign.len())
        };
        out.push((token, at));
        at += length;
    }
    Ok(out)
}

/// A number at the beginning of the text, and its length.
fn number(rest: &str, at: usize) -> Result<(Token, usize), Trouble> {
    let bytes = rest.as_bytes();
    let wrong = || Trouble::new(at, "this is not a number").suggest("numbers look like 3, 1_000, 0xff, 1.5 or 2e-3");
    let too_large = || {
        Trouble::new(at, "this whole number does not fit in 64 bits")
            .suggest("write it as a fraction, for example 1e30")
    };
    if matches!(bytes, [b'0', b'x' | b'X' | b'b' | b'B', ..]) {
        let radix = if matches!(bytes.get(1), Some(b'x' | b'X')) { 16 } else { 2 };
        let digits = bytes.iter().skip(2).take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        let text: String = rest.get(2..2 + digits).unwrap_or_default().replace('_', "");
        if text.is_empty() || !text.chars().all(|c| c.is_digit(radix)) {
            return Err(wrong());
        }
        let value = i64::from_str_radix(&text, radix).map_err(|_| too_large())?;
        return Ok((Token::Int(value), 2 + digits));
    }
    let digits = |from: usize| bytes.iter().skip(from).take_while(|b| b.is_ascii_digit() || **b == b'_').count();
    let mut end = digits(0);
    let mut fraction = false;
    if bytes.get(end) == Some(&b'.') {
        fraction = true;
        end += 1;
        end += digits(end);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent == 0 {
            return Err(wrong());
        }
        fraction = true;
        end += 1 + sign + exponent;
    }
    if bytes.get(end).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'.') {
        return Err(wrong());
    }
    let text = rest.get(..end).unwrap_or_default().replace('_', "");
    let token = if fraction {
        Token::Float(text.parse().map_err(|_| wrong())?)
    } else {
        Token::Int(text.parse().map_err(|_| too_large())?)
    };
    Ok((token, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Token> {
        tokens(text).unwrap().into_iter().map(|t| t.0).collect()
    }

    #[test]
    fn numbers_are_read_in_their_forms() {
        for (text, token) in [
            ("7", Token::Int(7)),
            ("1_000", Token::Int(1000)),
            ("0xFF", Token::Int(255)),
            ("0b101", Token::Int(5)),
            ("9223372036854775807", Token::Int(i64::MAX)),
            (".5", Token::Float(0.5)),
            ("2.", Token::Float(2.0)),
            ("1e-3", Token::Float(1e-3)),
            ("1.5E+2", Token::Float(150.0)),
        ] {
            assert_eq!(kinds(text), [token], "{text}");
        }
    }

    #[test]
    fn bad_numbers_are_refused_where_they_stand() {
        for text in ["1 + 9223372036854775808", "1 + 0xg", "1 + 1e", "1 + 3x", "1 + 1.2.3", "1 + 0x"] {
            assert_eq!(tokens(text).unwrap_err().at, 4, "{text}");
        }
    }

    #[test]
    fn the_longest_sign_wins() {
        let signs = |t: &str| kinds(t).into_iter().filter(|t| matches!(t, Token::Sign(_))).collect::<Vec<_>>();
        assert_eq!(signs("a**b//c<=d"), [Token::Sign("**"), Token::Sign("//"), Token::Sign("<=")]);
    }

    #[test]
    fn what_means_nothing_is_named() {
        assert_eq!(tokens("x ? y").unwrap_err().at, 2);
        assert_eq!(tokens("x + é").unwrap_err().at, 4);
    }

    #[test]
    fn names_are_names() {
        assert!(is_name("x1_") && is_name("_"));
        assert!(!is_name("1x") && !is_name("") && !is_name("a b"));
    }
}
