//! The fields of a request or a response: a small ordered map from text to text or null.

/// Fields in the order of the header. All texts share one allocation, one after the other.
#[derive(Debug, Clone, Default)]
pub struct ExtFields {
    text: String,
    fields: Vec<Field>,
}

/// Where the key and the value of a field end in the text. A field begins where the field before it ends.
#[derive(Debug, Clone, Copy)]
struct Field {
    key_end: u32,
    /// `None`: null, which has no text.
    value_end: Option<u32>,
}

impl Field {
    fn end(self) -> u32 {
        self.value_end.unwrap_or(self.key_end)
    }
}

impl ExtFields {
    /// No fields, with room for so many bytes of text and so many fields.
    #[must_use]
    pub fn with_capacity(text_bytes: usize, fields: usize) -> Self {
        Self { text: String::with_capacity(text_bytes), fields: Vec::with_capacity(fields) }
    }

    /// Adds a field. Of several with one key the last counts, as in a Java map. A field beyond 4 GiB of text would be
    /// left out; a frame is far smaller.
    pub fn push(&mut self, key: &str, value: Option<&str>) {
        let key_end = self.text.len() + key.len();
        let end = key_end + value.map_or(0, str::len);
        let (Ok(key_end), Ok(end)) = (u32::try_from(key_end), u32::try_from(end)) else { return };
        self.text.push_str(key);
        self.text.push_str(value.unwrap_or_default());
        self.fields.push(Field { key_end, value_end: value.map(|_| end) });
    }

    /// A field's value; `None` when it is missing or null.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let text = self.text.as_bytes();
        let (mut start, mut found) = (0usize, None);
        for field in &self.fields {
            let key_end = field.key_end as usize;
            if key_end - start == key.len() && text.get(start..key_end) == Some(key.as_bytes()) {
                found = field.value_end.map(|end| (key_end, end as usize));
            }
            start = field.end() as usize;
        }
        found.and_then(|(from, to)| self.text.get(from..to))
    }

    /// All fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let mut start = 0usize;
        self.fields.iter().map(move |field| {
            let key_end = field.key_end as usize;
            let key = self.text.get(start..key_end).unwrap_or_default();
            let value = field.value_end.map(|end| self.text.get(key_end..end as usize).unwrap_or_default());
            start = field.end() as usize;
            (key, value)
        })
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

impl PartialEq for ExtFields {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for ExtFields {}

impl<'a> FromIterator<(&'a str, Option<&'a str>)> for ExtFields {
    fn from_iter<I: IntoIterator<Item = (&'a str, Option<&'a str>)>>(fields: I) -> Self {
        let mut ext = Self::default();
        for (key, value) in fields {
            ext.push(key, value);
        }
        ext
    }
}

#[cfg(test)]
mod tests;
