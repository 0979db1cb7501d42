"""The models of the zoo as their authors run them: eagerly, and with just `hybridize(dynamic_batch=True)`."""

BEGINNING = 20  # minibatches in which a program may still be studied
LEAST = 2 * BEGINNING
