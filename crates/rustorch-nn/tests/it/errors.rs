//! What layers say of arguments that do not fit: the layer, what it takes, and what it got.

use rustorch_nn::{
    AlphaDropout, BatchNorm1d, BatchNorm2d, Bilinear, ChannelShuffle, Conv1d, Conv1dOptions, Conv2d,
    Conv2dOptions, ConvPadding, ConvTranspose2d, ConvTranspose2dOptions, CosineSimilarity, Dropout2d,
    Embedding, EmbeddingBag, EmbeddingBagOptions, EmbeddingOptions, FeatureAlphaDropout, Flatten, Fold,
    FoldOptions, GRU, GRUCell, GroupNorm, InstanceNorm1d, LPPool2d, LSTM, LSTMCell, Layer, LayerNorm,
    LocalResponseNorm, MaxPool2d, MaxUnpool2d, MultiheadAttention, MultiheadAttentionCall,
    MultiheadAttentionOptions, Nonlinearity, PaddingMode, PixelShuffle, PixelUnshuffle, RMSNorm, RNN,
    RNNCell, RNNCellOptions, RNNOptions, ReflectionPad1d, Transformer, TransformerDecoder,
    TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer, Unfold, Upsample,
};
use rustorch_tensor::{DType, InterpolateOptions, Result, Tensor};

fn zeros(dims: &[usize]) -> Tensor {
    Tensor::zeros(dims, DType::F32).unwrap()
}

/// Checks that an error has all these parts.
#[track_caller]
fn expect<T>(result: Result<T>, parts: &[&str]) {
    let message = result.err().unwrap().to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn convolutions() -> Result<()> {
    let conv = Conv2d::new(3, 4, 2)?;
    expect(conv.forward(&zeros(&[1, 2, 5, 5])), &["Conv2d", "[n, 3, h, w]", "[1, 2, 5, 5]"]);
    expect(conv.forward(&zeros(&[3, 5])), &["Conv2d", "[n, 3, h, w]", "[3, 5]"]);
    expect(conv.forward(&zeros(&[1, 3, 1, 5])), &["Conv2d", "[1, 3, 1, 5]"]);
    let wide = Tensor::zeros([1, 3, 5, 5], DType::F64)?;
    expect(conv.forward(&wide), &["Conv2d", "f32", "f64"]);
    let transposed = ConvTranspose2d::new(3, 4, 2)?;
    expect(transposed.forward(&zeros(&[4, 5, 5])), &["ConvTranspose2d", "[n, 3, h, w]", "[4, 5, 5]"]);
    Ok(())
}

#[test]
fn options_of_convolutions() {
    let conv = |options: Conv2dOptions| Conv2d::with(3, 4, 3, options);
    expect(conv(Conv2dOptions::default().groups(2)), &["Conv2d", "in_channels 3", "groups 2"]);
    expect(conv(Conv2dOptions::default().groups(0)), &["Conv2d", "groups 0"]);
    expect(conv(Conv2dOptions::default().output_padding(1)), &["Conv2d", "output_padding"]);
    let same = Conv2dOptions::default().padding(ConvPadding::Same);
    expect(conv(same.clone().stride([1, 2])), &["Conv2d", "Same", "[1, 2]"]);
    expect(ConvTranspose2d::with(3, 4, 3, same), &["ConvTranspose2d", "Same"]);
    let reflect = ConvTranspose2dOptions::default().padding(1).padding_mode(PaddingMode::Reflect);
    expect(ConvTranspose2d::with(3, 4, 3, reflect), &["ConvTranspose2d", "Reflect"]);
}

#[test]
fn paddings_pools_and_shapes() -> Result<()> {
    expect(ReflectionPad1d::new(3).forward(&zeros(&[1, 2, 3])), &["ReflectionPad1d", "3", "[1, 2, 3]"]);
    expect(ReflectionPad1d::new(1).forward(&zeros(&[3])), &["ReflectionPad1d", "2 without a batch", "[3]"]);
    let circular = Conv1dOptions::default().padding(4).padding_mode(PaddingMode::Circular);
    expect(
        Conv1d::with(1, 1, 3, circular)?.forward(&zeros(&[1, 1, 3])),
        &["Conv1d", "Circular", "[1, 1, 3]"],
    );
    expect(MaxPool2d::new(2).forward(&zeros(&[4, 4])), &["MaxPool2d", "3 without a batch", "[4, 4]"]);
    expect(Flatten::default().forward(&zeros(&[4])), &["Flatten"]);
    Ok(())
}

#[test]
fn norms() -> Result<()> {
    let x = zeros(&[2, 3, 4]);
    expect(BatchNorm2d::new(3)?.forward(&x), &["BatchNorm2d", "[n, c, h, w] with c = 3", "[2, 3, 4]"]);
    expect(BatchNorm1d::new(4)?.forward(&x), &["BatchNorm1d", "c = 4", "[2, 3, 4]"]);
    expect(BatchNorm1d::new(3)?.forward(&zeros(&[1, 3])), &["BatchNorm1d", "variance", "[1, 3]"]);
    expect(InstanceNorm1d::new(4)?.forward(&x), &["InstanceNorm1d", "[n, 4, l]", "[2, 3, 4]"]);
    expect(GroupNorm::new(2, 3), &["GroupNorm", "num_channels 3", "groups 2"]);
    expect(GroupNorm::new(2, 4)?.forward(&x), &["GroupNorm", "[n, 4, ..]", "[2, 3, 4]"]);
    expect(LayerNorm::new([3], 1e-5, DType::F32)?.forward(&x), &["LayerNorm", "[3]", "[2, 3, 4]"]);
    expect(RMSNorm::new([3])?.forward(&x), &["RMSNorm", "[3]", "[2, 3, 4]"]);
    expect(LocalResponseNorm::new(0), &["LocalResponseNorm", "size"]);
    expect(
        LocalResponseNorm::new(2)?.forward(&zeros(&[2, 3])),
        &["LocalResponseNorm", "[n, c, size..]", "[2, 3]"],
    );
    Ok(())
}

#[test]
fn recurrent_networks() -> Result<()> {
    let options = RNNOptions::default;
    expect(RNN::new(3, 2)?.forward(&zeros(&[4, 2, 5]), None), &["RNN", "[l, n, 3]", "[4, 2, 5]"]);
    let batch_first = GRU::with(3, 2, options().batch_first(true))?;
    expect(batch_first.forward(&zeros(&[3]), None), &["GRU", "[n, l, 3]", "[3]"]);
    let x = zeros(&[4, 2, 3]);
    expect(GRU::new(3, 2)?.forward(&x, Some(&zeros(&[2, 2, 2]))), &["GRU", "[1, 2, 2]", "[2, 2, 2]"]);
    let (hidden, cell) = (zeros(&[1, 2, 1]), zeros(&[1, 2, 1]));
    let projected = LSTM::with(3, 2, options().proj_size(1))?;
    expect(projected.forward(&x, Some((&hidden, &cell))), &["LSTM", "[1, 2, 2]", "[1, 2, 1]"]);
    expect(RNN::new(3, 2)?.forward(&zeros(&[0, 2, 3]), None), &["RNN", "one step"]);
    let wide = Tensor::zeros([4, 2, 3], DType::F64)?;
    expect(LSTM::new(3, 2)?.forward(&wide, None), &["LSTM", "f32", "f64"]);
    expect(LSTM::with(3, 2, options().proj_size(2)), &["LSTM", "proj_size 2", "hidden_size 2"]);
    expect(GRU::with(3, 2, options().proj_size(1)), &["GRU", "proj_size 1"]);
    expect(GRU::with(3, 2, options().nonlinearity(Nonlinearity::Relu)), &["GRU", "Relu"]);
    expect(RNN::with(3, 2, options().num_layers(0)), &["RNN", "num_layers"]);
    expect(RNN::with(3, 2, options().dropout(1.5)), &["RNN", "1.5"]);
    expect(RNNCell::new(3, 2)?.forward(&zeros(&[2, 4]), None), &["RNNCell", "[n, 3]", "[2, 4]"]);
    expect(GRUCell::new(3, 2)?.forward(&zeros(&[3]), Some(&zeros(&[3]))), &["GRUCell", "[2]", "[3]"]);
    let relu = RNNCellOptions::default().nonlinearity(Nonlinearity::Relu);
    expect(LSTMCell::with(3, 2, relu), &["LSTMCell", "Relu"]);
    Ok(())
}

#[test]
fn attention() -> Result<()> {
    let attention = MultiheadAttention::with(4, 2, MultiheadAttentionOptions::default().kdim(3))?;
    let (q, k, v) = (zeros(&[5, 2, 4]), zeros(&[6, 2, 3]), zeros(&[6, 2, 4]));
    expect(
        attention.forward(&q, &q, &v),
        &["MultiheadAttention", "4, 3 and 4", "[5, 2, 4], [5, 2, 4], [6, 2, 4]"],
    );
    expect(attention.forward(&q, &zeros(&[6, 3]), &v), &["MultiheadAttention", "[6, 3]"]);
    expect(attention.forward(&q, &k, &zeros(&[5, 2, 4])), &["MultiheadAttention"]);
    let with = |key_padding_mask: Option<&Tensor>, attn_mask: Option<&Tensor>| {
        let call = MultiheadAttentionCall { key_padding_mask, attn_mask, ..Default::default() };
        attention.forward_with(&q, &k, &v, &call)
    };
    expect(with(Some(&zeros(&[2, 5])), None), &["key_padding_mask", "[2, 6]", "[2, 5]"]);
    expect(with(None, Some(&zeros(&[6, 5]))), &["attn_mask", "[5, 6] or [4, 5, 6]", "[6, 5]"]);
    expect(with(None, Some(&Tensor::zeros([5, 6], DType::I64)?)), &["bool or floats", "i64"]);
    expect(MultiheadAttention::new(4, 3), &["MultiheadAttention", "embed_dim 4", "num_heads 3"]);
    expect(TransformerEncoderLayer::new(4, 3), &["TransformerEncoderLayer", "embed_dim 4", "num_heads 3"]);
    expect(
        TransformerEncoderLayer::new(4, 2)?.forward(&zeros(&[5, 3])),
        &["TransformerEncoderLayer", "[5, 3]"],
    );
    let decoder = TransformerDecoderLayer::new(4, 2)?;
    expect(decoder.forward(&zeros(&[5, 4]), &zeros(&[5, 3])), &["TransformerDecoderLayer", "[5, 4], [5, 3]"]);
    let both = Transformer::new(4, 2)?;
    expect(both.forward(&zeros(&[5, 2, 4]), &zeros(&[5, 3, 4])), &["Transformer", "one batch", "[5, 3, 4]"]);
    expect(both.forward(&zeros(&[5, 4]), &zeros(&[5, 3])), &["Transformer", "width 4", "[5, 4], [5, 3]"]);
    expect(Transformer::new(4, 3), &["Transformer", "embed_dim 4"]);
    expect(TransformerDecoder::new(Vec::new(), None), &["TransformerDecoder", "one layer"]);
    expect(TransformerEncoder::new(Vec::new(), None), &["TransformerEncoder", "one layer"]);
    Ok(())
}

#[test]
fn tables_and_modules_of_two_arguments() -> Result<()> {
    let bag = EmbeddingBag::new(5, 3)?;
    let (flat, factors) = (Tensor::new([0i64, 1, 2])?, zeros(&[3]));
    let offsets = |offsets: [i64; 2]| Tensor::new(offsets);
    expect(bag.forward(&flat), &["EmbeddingBag", "with offsets", "[3]"]);
    expect(bag.forward_with(&flat, Some(&offsets([1, 2])?), None), &["EmbeddingBag", "ascends from 0"]);
    expect(bag.forward_with(&flat, Some(&offsets([0, 4])?), None), &["EmbeddingBag", "at most 3"]);
    let weighted = bag.forward_with(&flat, Some(&offsets([0, 2])?), Some(&factors));
    expect(weighted, &["EmbeddingBag", "Sum", "Mean"]);
    let padded = EmbeddingBagOptions::default().padding_idx(5);
    expect(EmbeddingBag::with(5, 3, padded), &["EmbeddingBag", "padding_idx 5", "5 rows"]);
    expect(Embedding::new(5, 3, DType::F32)?.forward(&Tensor::new([5i64])?), &["Embedding", "5"]);
    let scaled = EmbeddingOptions::default().max_norm(-1.0);
    expect(Embedding::with(5, 3, scaled), &["Embedding", "max_norm", "-1"]);
    let bilinear = Bilinear::new(3, 2, 1)?;
    expect(
        bilinear.forward(&zeros(&[4, 3]), &zeros(&[5, 2])),
        &["Bilinear", "[.., 3] and [.., 2]", "[5, 2]"],
    );
    expect(bilinear.forward(&zeros(&[4, 2]), &zeros(&[4, 2])), &["Bilinear", "[4, 2], [4, 2]"]);
    expect(
        CosineSimilarity::default().forward(&zeros(&[3]), &zeros(&[3])),
        &["CosineSimilarity", "dimension 1"],
    );
    expect(
        CosineSimilarity::default().forward(&zeros(&[2, 3]), &zeros(&[2, 4])),
        &["CosineSimilarity", "[2, 4]"],
    );
    Ok(())
}

#[test]
fn images() {
    expect(PixelShuffle::new(2).forward(&zeros(&[6, 1, 1])), &["PixelShuffle", "factor 2", "[6, 1, 1]"]);
    expect(PixelShuffle::new(0).forward(&zeros(&[6, 1, 1])), &["PixelShuffle", "factor 0"]);
    expect(PixelUnshuffle::new(2).forward(&zeros(&[4, 3])), &["PixelUnshuffle", "[.., c, h, w]", "[4, 3]"]);
    expect(PixelUnshuffle::new(2).forward(&zeros(&[1, 4, 3])), &["PixelUnshuffle", "2", "[1, 4, 3]"]);
    expect(ChannelShuffle::new(2).forward(&zeros(&[1, 3, 2])), &["ChannelShuffle", "groups 2", "[1, 3, 2]"]);
    expect(Unfold::new(FoldOptions::new(3)).forward(&zeros(&[1, 2, 4])), &["Unfold", "[3, 3]", "[1, 2, 4]"]);
    expect(Unfold::new(FoldOptions::new(1).stride(0)).forward(&zeros(&[1, 2, 4])), &["Unfold", "stride"]);
    expect(Fold::new(3, FoldOptions::new(2)).forward(&zeros(&[4, 5])), &["Fold", "[n, c · 4, 4]", "[4, 5]"]);
    expect(Fold::new(1, FoldOptions::new(2)).forward(&zeros(&[4, 5])), &["Fold", "[2, 2]", "[1, 1]"]);
    expect(Upsample::new(InterpolateOptions::size(0)).forward(&zeros(&[1, 1, 4])), &["Upsample"]);
    let outside = Tensor::full([1, 1, 1], 4i64, DType::I64).unwrap();
    expect(MaxUnpool2d::new(2).forward(&zeros(&[1, 1, 1]), &outside), &["MaxUnpool2d"]);
    expect(
        MaxUnpool2d::new(2).forward(&zeros(&[1, 1, 2]), &outside),
        &["MaxUnpool2d", "[1, 1, 2], [1, 1, 1]"],
    );
    expect(Dropout2d::new(-0.5), &["Dropout2d", "-0.5"]);
    expect(
        Dropout2d::new(0.5).unwrap().forward(&zeros(&[2, 3])),
        &["Dropout2d", "3 without a batch", "[2, 3]"],
    );
    expect(AlphaDropout::new(2.0), &["AlphaDropout", "2"]);
    expect(FeatureAlphaDropout::new(2.0), &["FeatureAlphaDropout", "2"]);
    expect(
        FeatureAlphaDropout::new(0.5).unwrap().forward(&zeros(&[3])),
        &["FeatureAlphaDropout", "[n, c, ..]", "[3]"],
    );
    expect(LPPool2d::new(2.0, 2).forward(&zeros(&[3, 3])), &["LPPool2d", "[3, 3]"]);
}
