"""Reports as self-contained HTML pages, which share one base template and one style sheet."""
