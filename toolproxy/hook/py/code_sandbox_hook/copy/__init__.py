"""The copy's side: make an interpreter ready as the boot record says, find the
function, run it once, and say how it ended."""
