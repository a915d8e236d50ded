/**
 * A model of names: the cost of each character in a name given the preceding ones, as a compressor would compute it.
 * The costs come from counts of 2026-11-28 in 87,000 names of files in installed packages, without hashes, and in the
 * words of this project's guides. Data and the access to it; it imports nothing. Any thread.
 */

/** Kinds of characters. */
export const OTHER = 0;
export const LOWER = 1;
export const UPPER = 2;
export const DIGIT = 3;

/** Stands for the character before a name. */
export const FIRST_LETTER = 26;

/** Costs in half bits, in base 36: one digit for each kind after each sequence of four kinds. */
const KIND_COSTS = [
  'd06ce0mbf13d3al2f0jda0hdc14a33i4c147e08j771b4e42r9v070i8623b2cf24364j0oj822814z9n0a770gef09m48j1',
  'n07b908l47272735x0ibb0la815a37j2426dc0fff22917k4t15fc08gf09f4436c327d0bg5d184ab1t1568236932b3ib2',
  'nad0i0zta3271pw5k0h780if714i34e3k14a808f542a4b42m2c262j374270dk7g16ad0tdd07i0hf7k0ia90sg725522m7',
  'i14ci0ac392c3554t0ma51fc623b9fo0735390rc93291dz4h0f541dfg08g28e3q0acd0ck681d4725i0h742d6616958d1',
  '426d41qbb80816j5v09ba08ha08f2646b138a09c481c4752r1566168c14d3e92j4b1b0zi92291ac3m1b4c0ih523i23d5',
  'k14a816i54285b32x29332l7814c35h2e22de0nbg13e2ak2n0nab0yj715832l6d147m0ap8m0f3d81o0cab0lh623b5e91',
  '735360yk913c1dz3r068716ge08c3862o07d908d65183445m08a716891494762235fc0nhb90c15i5q169a08e52662765',
  'l317d0cb3b1f6ha1u2558246932a8db0i5b180zn533943l4g1d57189623i3593k14a717c623a4b32r158425642473da1',
  'd06ce09bg13d0gp7r0q7b0zk915867p1g14aj06m481a295392g370lg523c0ai7725490zga22a15z5n0j560ii715g58i1',
  'n07be06k45264634o0la70jc71491bh4426d90nib70d15i4q09cb08c61663544j325f07b372e6871p156715782384db1',
  'j5b1d0zd922d39i1e1f561h6714i6aj0l14b60bi46284c42n0e732n6732c09g8',
].join('');

/**
 * Costs in half bits, in base 36: one digit for each letter after each letter (a row). The last row is for the first
 * letter of a word.
 */
const LETTER_COSTS = [
  'ga79ie9jajc796j8k685bcefch',
  '6dac7dae7af6ac7ag98b7hgcce',
  '7fbe6eh7ai88cg5ck8a6agigcj',
  '7aca4dbg5geacd8dh98d9eehdj',
  '9c87bccheig996fae568fbd9dk',
  '7gcc77eh4ke8cf6ej8998jghbn',
  '8ebc4eba6le9b89ag68c9ffjef',
  '5fdc4ffj6mecbe5di9c8aihlbe',
  'a78aab9lhng8947aja87jbmdpc',
  '6f9a5ddg8hfebc89cc5c7baijh',
  '8bba3bce6jhbbbacgb6b9hdieh',
  '7fda5efi4ne7eg6dif9aadikcg',
  '5acb4gel7jeaaf76hf9c9fhgfk',
  '8f877a6g9gcdfb9dme65cbhgej',
  'cb99gdbhcfc88499m5998bafgk',
  '6gae6eca8me7df79i697ajggbn',
  'cebdbefgdhg5dbcfhabb2defgh',
  '6eaa4eck6obdac7dmb78bcgjan',
  '9f8e5ee87kcbce99ee759edgbl',
  '7fbd5ef85kgbdf7cn78aaidhaj',
  'a8a99cbl9ih886d8n776fihfjh',
  '5ebe3gff5ljd9d9bmfcbdkighh',
  '5gac6ef86ldbd96bk87cggggfl',
  '9c796agd8idb9ec6jc95cde9de',
  '9a9bacbfbhha7895jb58chbjjc',
  '6gcc3dfc6hibbf7cgcacciehba',
  '897899ab9dd89ab8f868bbbdhg',
].join('');

/** One bit for each sequence of three letters: whether it occurs in words. Least significant bit first, base64. */
const TRIPLES = [
  'AQAGVORRUNn9UcY2WwAQBMQwcRAVZwBEAAAs+I4AAIEQAWTBf7dfH9kE/PdzBQAIQGb2AwAAEPz1O1XZz9Ftl0dIKI5EBCkS',
  '0MIARBAAElhEQABB7MTuQwGSgJ3IHmwECNCP4hpKkAAN+Q5AAAHwhcpAByABCAACRBVRHBFMQA0gAQn4/pT0PQQBAEFEEQcd',
  'WV1VFhnAluIABAAAAQAAEFAwEACKAEAAAA65HgAAIVARhAFBmAGfuZ6ANUCAESBAR7UHOfkOAAAS8JfuVUQcBRnBBAAAMPCN',
  'b0MAskUAABBUZGPUHe5GXZJ3Gp0eAAAwgBAAAAAAIEcADkAAAGDV61JEFkWDQABEJFn0t/8KQAIEEYACEAAB0AfnQwAABAAA',
  'EEAkA9QRAEACAAU28N4EUgkAAABBRBRElcAJJQIJVIHrQEYQABHAAAAAAACAAgAAAAAOvD4UZlvQ2e3TX7QfPryOxiR5EJUl',
  'UUAQBGgwKkQAEAARBUBPPltf0Tb9jfsmAmtBJZIHAEAU/OX7dd/f13+/dxSBDkQkMxAZbEBHIAcW0EZAAADA0PMDAAAEgCgA',
  'BAQA0YHiBEQSARAAAAAEAMCH6goAAAARAQBEBGEQAIQAEAUADGiSAABAAAAAQEQQABQQCEEAEwGg4iAAAAAAAAAAAAAAAAAA',
  'AAAATrkqABBAQIlswAUBAR79rwAgABARIAAEIgM9YC4AAAAAAQBARBBkEYgIVERRoIHnQxCSBgAAEEQEY0AB2UEkAQAROQoE',
  'AAAAEQAAAAAAAIAAAAQA4NDrAgAQAAHIgERkCPCR4xkAAAAAAAAAAADgh+sCAAAAAAAEQAQAEAFEAAAAAVj5fhQAQACAAEBE',
  'EAAAgAhAwDEgBoMAAAAABAAAAAAAoABIAAAAAka4Dvz/+1/Z5FFXmgMcKO7EBCmUHf8DABAEACAAAAAAABGAQEdWR1vRFvy/',
  '+8aI40FtsgsAABB0RHvw2+/db7ZXABAARAQBAAAAgEQkAgAAAEQAAQAAIgIAAAAASJBAEEBAAMAAAIAAAAAAAAAAAADCAAAA',
  'AAAAAAAEAAAABAhCAACCARJAAAAAAAABBAAAiECKIAAAgIBDAAAEABAEDAAAAAAAAAAAAABuKApQAAEACEQATBAAuvjOASQR',
  'QAAgQAAQABiojAAAAAAAAABEEAABQAQAAAEAUiIBABACAAAQSEAAQAGIQUSQAAKAAAAAABAAJAAAAAAAAAAAAADg1OtxABAA',
  'hVgQ3ARZ8Jf7H0QQBBHAAgAAAfDH3yoAAAAYAQRsRPmUAUAABAACT+B+RQYIAAAAAEQwBBfJCGQWGZSF4wBEBAABAQAAAAAA',
  'AskgAAQAbr+uV6RTUAiswVASIU/9zgAAAAAAIQAAAABc+J4CABCAAsCASZADEUEUAQEg4DDnY02aJwAIEBAAAUBViBJEIgEE',
  'OI5AgAAQAAAAAAAAAAAEAAAA4JbrAwAQBrnZHt10e9WV5h5FlwfXyR7EJADQh99qBgAAECFERAQDFAEEQEQQIiv9/gRwaQYA',
  'AAAEMAK13Vz8ZluUge1IZBCBgYEAAEAoYAKBBEAAAAwQHkQsUXTVzMFOEEUAICaghCBwl+ZVBAACDCAGQgQQABFBQUeXTxPZ',
  'BPz9u4TU6+BntkcAAAD89XtFn8xIbjpHTqkORAQBUJPCAEQgQBgQAEAEAODU+1UAAAC3+SaMAEDQhe8IQAQAFIGGRARfxN3q',
  'CAAAAFQBAEQEQRQBREAQIAAM/U5UJhkAAABARRIFtIkIVCZbJoDqAAAAABgAAgAAAMKW7QAAAAAAAAAAAABAAAAAAAAAAACA',
  'AAAAAAAAAAAAAAAAAAAAAAAAAEBAAAAAAAAAAAACAAAAAAAAAAAAAAAgAAAAAAAAABFBAAAAIAAAAAAAAAAAAAAAAADg1ut3',
  'QBABtdkQ7GRa8f//T0OTBBXZNAIAAPDHzyoAAAA/mRTkJBHUEUZEVRABf///FUIpAAAAQEUYRZVBCP2mW2SBy0BEEgABAQAA',
  'AICwEOkEAAAAb7m+FQRBUNntgEUTAH+470EACUATKcBMlgZ/+K4CBAAQkdBATDACEUEMZAQBYIIvQXeaBAAIEtQAcNCZrcV/',
  'vm93uQ4QBRCQkQQAAAAgADAEAAAA4NbrWQQSRYHoXlwEAfDH6w9CFgUBAQJ05Fn8x+8iAAABEAEAREQbFIEMQQQAAP//Xhwh',
  'WQEAAEFfPlcV2TnEJEv0EOtAQAAAFUEEBAAgQIRIAAAAAEgoKmTp+0TrwMBf4kMIIB6AIAAQHWAAAAAAHCgOAAQAAAEAQFcr',
  'Ahv4FPz1ew0AiAFXJgMAAADctfuQmejRbzY3ABEAAAAAAABAAAAAAAAAAAAAAOjY6gkAAAEUAIQABADQgOIYAAABAAAAAAAC',
  '0IHvIgAAAAAAAEAEBBAAYQwCAAAEDQIQgAEAAAAAAAAABAEAQAABAIAAAAAAAAAAAAAAAAAAAAAAAABorS4BAAAAiMAEAAAA',
  'GymmAAAAAAEAQEQQQGwoDgAAAAAAQABEEAAQAABAIBABACABALAAAAAAZAQBQAUAAAAQAAAAAAgAAAAAAAAAAAAAAAQAAADA',
  'EIEBAAgEkkgQWEVIwQRjSECAAgAAAAQAIMABwwAAAAACAAAAAAEwgAABAAAEAKACRGQJAAAAQAQABBwIROVA2gAAQAAAAAIA',
  'AACAAgACAAAAAAAADjASRAAJAIkEwAQQAAggjgAEAAABIQQAAAAAIAAAAAAAAABARhAAU1kEFAAhAAAKQWSQAgAAAEAEAECR',
  'mANlgAAAEAgAAAAQCCQAAAAAAAAAQAAAIASAAAAAAAAQAAAAAMAAYgAAAAAAAAAAAAAAhAoAAAAAAAAAAAQAEAAAAAAAAAhg',
  'AAAAAAAAAAAAAAAAAAgAAAEAACAAAAAAAAAAAAAAAABAAAAQQA==',
].join('');

const kindCosts = Uint8Array.from(KIND_COSTS, (char) => Number.parseInt(char, 36));
const letterCosts = Uint8Array.from(LETTER_COSTS, (char) => Number.parseInt(char, 36));
const triples = Buffer.from(TRIPLES, 'base64');

/** Cost of a digit in half bits: the information that tells ten digits apart. */
export const COST_OF_DIGIT = 7;
/** Added to a letter's cost if the letter and the two before it occur together in words, and if they do not. */
const KNOWN_TRIPLE = -2;
const UNKNOWN_TRIPLE = 8;

/**
 * Returns the cost of a kind of character, in half bits.
 * @param before the four kinds before the character, two bits each, the last kind lowest
 */
export function costOfKind(before: number, kind: number): number {
  return kindCosts[before * 4 + kind]!;
}

/**
 * Returns the cost, in half bits, of a letter (0 to 25) after the last two letters of its word; {@link FIRST_LETTER} if
 * absent.
 */
export function costOfLetter(beforeLast: number, last: number, letter: number): number {
  const cost = letterCosts[last * 26 + letter]!;
  if (beforeLast === FIRST_LETTER || last === FIRST_LETTER) return cost;
  const triple = (beforeLast * 26 + last) * 26 + letter;
  return cost + (((triples[triple >> 3]! >> (triple & 7)) & 1) === 1 ? KNOWN_TRIPLE : UNKNOWN_TRIPLE);
}
