"""Reports as HTML pages that need no other file: one template for all, which each extends, and one style."""
