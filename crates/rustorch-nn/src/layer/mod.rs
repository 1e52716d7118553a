//! Layers with PyTorch's arguments and defaults, one file for each or for a family.

mod adaptive_pool;
mod batch_norm;
mod bilinear;
mod conv;
mod conv_transpose;
mod distance;
mod dropout;
mod embedding;
mod embedding_bag;
mod fold;
mod group_norm;
mod grouped_query_attention;
mod instance_norm;
mod layer_norm;
mod linear;
mod linear_cross_entropy;
mod lp_pool;
mod max_unpool;
mod multihead_attention;
mod options;
mod padding;
mod pool;
mod reshape;
mod rnn;
mod rotary;
mod sequential;
mod shuffle;
mod swiglu;
mod transformer;
mod upsample;

pub use adaptive_pool::{
    AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool,
    AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
};
pub use batch_norm::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d, BatchNormOptions};
pub use bilinear::{Bilinear, BilinearOptions};
pub use conv::{
    Conv, Conv1d, Conv1dOptions, Conv2d, Conv2dOptions, Conv3d, Conv3dOptions, ConvNdOptions, ConvPadding,
};
pub use conv_transpose::{
    ConvTranspose, ConvTranspose1d, ConvTranspose1dOptions, ConvTranspose2d, ConvTranspose2dOptions,
    ConvTranspose3d, ConvTranspose3dOptions,
};
pub use distance::{CosineSimilarity, PairwiseDistance};
pub use dropout::{
    AlphaDropout, ChannelDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout,
};
pub use embedding::{Embedding, EmbeddingOptions};
pub use embedding_bag::{EmbeddingBag, EmbeddingBagMode, EmbeddingBagOptions};
pub use fold::{Fold, FoldOptions, Unfold};
pub use group_norm::{GroupNorm, GroupNormOptions, LocalResponseNorm};
pub use grouped_query_attention::{GroupedQueryAttention, GroupedQueryAttentionOptions, KeyValueCache};
pub use instance_norm::{InstanceNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, InstanceNormOptions};
pub use layer_norm::{LayerNorm, LayerNormOptions, RMSNorm, RMSNormOptions};
pub use linear::{Linear, LinearOptions};
pub use linear_cross_entropy::{LinearCrossEntropyLoss, LinearCrossEntropyLossOptions};
pub use lp_pool::{LPPool, LPPool1d, LPPool2d, LPPool3d};
pub use max_unpool::{MaxUnpool, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d};
pub use multihead_attention::{
    MultiheadAttention, MultiheadAttentionCall, MultiheadAttentionOptions, NonDynamicallyQuantizableLinear,
};
pub use options::ExpandingArray;
pub(crate) use padding::pad as padded;
pub use padding::{
    CircularPad, CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad, ConstantPad1d, ConstantPad2d,
    ConstantPad3d, PaddingMode, PaddingSides, ReflectionPad, ReflectionPad1d, ReflectionPad2d,
    ReflectionPad3d, ReplicationPad, ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad,
    ZeroPad1d, ZeroPad2d, ZeroPad3d,
};
pub use pool::{AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool, MaxPool1d, MaxPool2d, MaxPool3d};
pub use reshape::{Flatten, Identity, Unflatten};
pub use rnn::{GRU, GRUCell, LSTM, LSTMCell, Nonlinearity, RNN, RNNCell, RNNCellOptions, RNNOptions};
pub use rotary::{RotaryEmbedding, RotaryEmbeddingOptions};
pub use sequential::{Function, IntoLayer, OfFunction, OfLayer, Sequential};
pub use shuffle::{ChannelShuffle, PixelShuffle, PixelUnshuffle};
pub use swiglu::SwiGLU;
pub use transformer::{
    Transformer, TransformerActivation, TransformerCall, TransformerDecoder, TransformerDecoderCall,
    TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer, TransformerLayerOptions,
};
pub use upsample::Upsample;
