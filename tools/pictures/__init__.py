"""The pictures of docs/current-state.md, drawn from the steps of the reference folds."""
