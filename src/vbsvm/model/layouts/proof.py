"""Every class of a layout keeps the interface that it stands for: the type checker reads this, and nothing runs it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vbsvm.model.coefficients import PointDistribution
    from vbsvm.model.interfaces import (
        CoefficientDistribution,
        Conditional,
        CrossSums,
        GaussianDistribution,
        Gram,
        Message,
        Rows,
    )
    from vbsvm.model.layouts.arrow import ArrowGaussian, ArrowGram
    from vbsvm.model.layouts.arrow_message import ArrowMessage
    from vbsvm.model.layouts.arrow_rows import ArrowCross, ArrowRows
    from vbsvm.model.layouts.dense import DenseGaussian, DenseGram, DenseRows, GatedMessage
    from vbsvm.model.layouts.drawn import DrawnGaussian, DrawnGram, DrawnRows
    from vbsvm.model.layouts.dual import DualGaussian, DualGram, DualMessage, DualRows, KernelMessage
    from vbsvm.model.layouts.sampled import SampledCoefficients
    from vbsvm.model.layouts.spike_slab import SpikeMessage, SpikeSlab
    from vbsvm.model.matrices import DenseMatrix, DesignMatrix, SparseMatrix, StandardisedMatrix

    ROWS: tuple[type[Rows], ...] = DenseRows, ArrowRows, DualRows, DrawnRows
    CROSS: tuple[type[CrossSums], ...] = (ArrowCross,)
    GRAMS: tuple[type[Gram], ...] = DenseGram, ArrowGram, DualGram, DrawnGram
    CONDITIONALS: tuple[type[Conditional], ...] = DenseGaussian, ArrowGaussian, DualGaussian, DrawnGaussian
    WITH_SPREAD: tuple[type[GaussianDistribution], ...] = (SpikeSlab,)
    WITHOUT: tuple[type[CoefficientDistribution], ...] = PointDistribution, SampledCoefficients
    MESSAGES: tuple[type[Message], ...] = (
        PointDistribution,
        DenseGaussian,
        GatedMessage,
        ArrowMessage,
        DualMessage,
        KernelMessage,
        SpikeMessage,
        SampledCoefficients,
        DrawnGaussian,
    )
    MATRICES: tuple[type[DesignMatrix], ...] = DenseMatrix, SparseMatrix, StandardisedMatrix
