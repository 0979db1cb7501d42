"""Static plans: the skeleton of a plan with padded sizes, which runs again on the numbers of other minibatches."""
