"""Code coverage of the synthesizable RTL: lines, branches and toggles."""
