"""Whether the tests see bugs: mutants of the RTL and known bugs, many in one simulator behind a selector."""
