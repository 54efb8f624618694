"""Deep learners: IQL, SQL, SAC-N and their ROOM rows, trained as one.

Importing this package loads no torch; fitting one of its bases does.
"""

from tailproof.deep.bases import IQL, SAC, SQL, TD3BC, BehaviourCloning, NeuralFQE
from tailproof.deep.environments import play
from tailproof.deep.history import CSVLogger, MLflowLogger, TensorBoardLogger, WandbLogger
from tailproof.deep.settings import Evaluation, Run

__all__ = [
    "IQL",
    "SAC",
    "SQL",
    "TD3BC",
    "BehaviourCloning",
    "CSVLogger",
    "Evaluation",
    "MLflowLogger",
    "NeuralFQE",
    "Run",
    "TensorBoardLogger",
    "WandbLogger",
    "play",
]
