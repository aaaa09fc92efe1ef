"""`python -m tools.pictures`: draw the pictures, and write their words into the page."""

from tools.pictures.files import files

if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
