"""Deep learners: IQL, SQL, SAC-N and their ROOM variants, all members trained in one stack.

Importing this package does not import torch; fitting one of its bases does.
"""

from tailproof.deep.bases import IQL, SAC, SQL, TD3BC, BehaviourCloning, NeuralFQE
from tailproof.deep.history import History
from tailproof.deep.loggers import CSVLogger, MLflowLogger, TensorBoardLogger, WandbLogger
from tailproof.deep.settings import EarlyStopping, Evaluation, Run
from tailproof.worlds.environments import play

__all__ = [
    "IQL",
    "SAC",
    "SQL",
    "TD3BC",
    "BehaviourCloning",
    "CSVLogger",
    "EarlyStopping",
    "Evaluation",
    "History",
    "MLflowLogger",
    "NeuralFQE",
    "Run",
    "TensorBoardLogger",
    "WandbLogger",
    "play",
]
