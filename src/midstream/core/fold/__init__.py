"""apply(run, fact), by what a fact is about. Begin with `apply`: its table says who folds which."""
