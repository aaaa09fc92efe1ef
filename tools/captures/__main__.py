"""`python -m tools.captures`: write the captures, each into its project."""

from tools.captures.files import captures

for file, content in captures().items():
    file.write_bytes(content)
