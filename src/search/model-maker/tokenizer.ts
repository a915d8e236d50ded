/**
 * The default model's tokenizer.json: words (camelCase is split and lower-cased) as UTF-8 bytes. Bytes at the start of
 * a word differ from bytes inside it. Every script is supported, and there are no unknown tokens. Development only.
 */
import { INNER_ID, PAD_ID, START_ID, UNKNOWN_ID } from './features.ts';

/** Maximum tokens per text; later ones are cut off. */
const TOKENS_MAX = 2_048;

/** Lists printable substitutes for the 256 bytes in a byte-level tokenizer (as in GPT-2). */
function listByteCharacters(): string[] {
  const isPrintable = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  let spare = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : spare++));
}

const vocab: Record<string, number> = { '[PAD]': PAD_ID, '[UNK]': UNKNOWN_ID };
for (const [byte, character] of listByteCharacters().entries()) {
  vocab[character] = START_ID + byte;
  vocab[`##${character}`] = INNER_ID + byte;
}

export const TOKENIZER = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: [PAD_ID, UNKNOWN_ID].map((id) => ({
    id,
    content: id === PAD_ID ? '[PAD]' : '[UNK]',
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  })),
  normalizer: {
    type: 'Sequence',
    normalizers: [
      {
        type: 'Replace',
        pattern: { Regex: '(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])' },
        content: ' ',
      },
      { type: 'NFKC' },
      { type: 'Lowercase' },
    ],
  },
  pre_tokenizer: {
    type: 'Sequence',
    pretokenizers: [
      {
        type: 'Split',
        // Bounded, because the cost of a word is quadratic in its length; shorter where a character has several bytes.
        pattern: {
          Regex:
            '[\\p{Script=Latin}\\p{N}]{1,24}|[\\p{Script=Cyrillic}\\p{Script=Greek}]{1,16}|[\\p{L}\\p{M}]{1,4}',
        },
        behavior: 'Removed',
        invert: true,
      },
      { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
    ],
  },
  post_processor: null,
  decoder: { type: 'WordPiece', prefix: '##', cleanup: false },
  model: {
    type: 'WordPiece',
    unk_token: '[UNK]',
    continuing_subword_prefix: '##',
    max_input_chars_per_word: 100,
    vocab,
  },
};

export const TOKENIZER_CONFIG = {
  tokenizer_class: 'PreTrainedTokenizerFast',
  pad_token: '[PAD]',
  unk_token: '[UNK]',
  clean_up_tokenization_spaces: false,
  model_max_length: TOKENS_MAX,
};
