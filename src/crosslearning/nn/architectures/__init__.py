"""Networks to start with: convolutional ones for images, two for vectors.

All of them are sequences of named parts, so that tethers can be given by name: ``features`` and
``classifier`` for images, ``layers`` and ``head`` for vectors.
"""

from crosslearning.nn.architectures.cnn import batchnorm_cnn, small_cnn
from crosslearning.nn.architectures.linear import linear
from crosslearning.nn.architectures.mlp import mlp

__all__ = ["batchnorm_cnn", "linear", "mlp", "small_cnn"]
