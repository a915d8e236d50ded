/**
 * The shapes of keys, in one table. The search and its filters in TypeScript use this table, and the native header
 * `native/bytes/key-table.h` is generated from it, so all of them find the same keys. Data only; it imports nothing,
 * because the native code's fallback reads it. Any thread.
 *
 * Sources: RFC 7519 (JWT); the prefixes that the providers publish for secret scanning.
 */

/** Sets of characters, one bit each. */
export const CHARACTERS = {
  /** Characters of a run: letters, digits, `-` and `_`. */
  run: 1 << 0,
  letter_digit: 1 << 1,
  upper_digit: 1 << 2,
  lower_digit: 1 << 3,
  lower: 1 << 4,
  digit: 1 << 5,
  hex: 1 << 6,
  any_hex: 1 << 7,
  base64: 1 << 8,
  letter_digit_hyphen: 1 << 9,
  letter_digit_underscore: 1 << 10,
  run_equals: 1 << 11,
  run_dot_equals: 1 << 12,
  lower_digit_run: 1 << 13,
  equals: 1 << 14,
  /** Characters of a Bearer token or base64. */
  token: 1 << 15,
} as const;
type Characters = keyof typeof CHARACTERS;

const MEMBERS: Record<Characters, RegExp> = {
  run: /[A-Za-z0-9_-]/,
  letter_digit: /[A-Za-z0-9]/,
  upper_digit: /[A-Z0-9]/,
  lower_digit: /[a-z0-9]/,
  lower: /[a-z]/,
  digit: /[0-9]/,
  hex: /[0-9a-f]/,
  any_hex: /[0-9A-Fa-f]/,
  base64: /[A-Za-z0-9+/_-]/,
  letter_digit_hyphen: /[A-Za-z0-9-]/,
  letter_digit_underscore: /[A-Za-z0-9_]/,
  run_equals: /[A-Za-z0-9_=-]/,
  run_dot_equals: /[A-Za-z0-9_.=-]/,
  lower_digit_run: /[a-z0-9_-]/,
  equals: /=/,
  token: /[A-Za-z0-9._~+/=-]/,
};

/** For each byte, the sets that contain it. */
export const KINDS: Uint32Array = Uint32Array.from({ length: 256 }, (_, byte) => {
  const char = String.fromCharCode(byte);
  let kinds = 0;
  for (const [name, bit] of Object.entries(CHARACTERS))
    if (MEMBERS[name as Characters].test(char)) kinds |= bit;
  return kinds;
});

/**
 * The longest sequence of characters of one set, with a minimum and a maximum length. With `escaped`, `\/` counts as
 * one character, because some JSON writers escape slashes.
 */
export interface Several {
  of: Characters;
  least: number;
  most: number;
  escaped: boolean;
}

/** A part of a shape; parts follow one another. Matching never backtracks, so a shape is matched in one pass. */
export type Part =
  | string
  | Several
  | { one_of: readonly string[] }
  /** The parts as a group, repeated at most this often, possibly never. */
  | { parts: readonly Part[]; most: number };

export interface KeyShape {
  /** Possible beginnings of the shape. */
  begins: readonly string[];
  then: readonly Part[];
  /**
   * Where the key may begin: anywhere; not within a word; or at the start of a token, for beginnings that are common
   * within words. In JSON a key often follows an escape, and `\nsk-ant-…` has a letter before it, so a token also
   * starts after an escape.
   */
  at: 'anywhere' | 'word' | 'token';
  /** Whether the key must be at the end of its run. */
  is_alone: boolean;
  /**
   * How the text after the beginning must look. Names in code may begin like most keys, so the text must be random
   * (randomness.ts). `mixed`: the text must also have a capital and a digit. `any`: no name begins like this key.
   */
  looks: 'random' | 'mixed' | 'any';
  /** Bytes before the beginning that belong to the key when they look like an id and a dot. */
  id_before: number;
}

const several = (of: Characters, least: number, most = Number.POSITIVE_INFINITY): Several => ({
  of,
  least,
  most,
  escaped: false,
});
/** Base64 whose slashes may be escaped. */
const escaped = (least: number): Several => ({
  of: 'base64',
  least,
  most: Number.POSITIVE_INFINITY,
  escaped: true,
});
const padding = (most: number): Several => several('equals', 0, most);

function shape(
  at: KeyShape['at'],
  begins: string | readonly string[],
  then: readonly Part[],
  rest: Partial<KeyShape> = {},
): KeyShape {
  const list = typeof begins === 'string' ? [begins] : begins;
  return { begins: list, then, at, is_alone: false, looks: 'random', id_before: 0, ...rest };
}

const each = (before: string, middles: string, behind: string): string[] =>
  middles.split(' ').map((middle) => `${before}${middle}${behind}`);

/** In the order in which they are tried at a place: the first match counts. */
export const KEY_SHAPES: readonly KeyShape[] = [
  shape(
    'anywhere',
    each('sk-ant-', 'api admin oat ort sid', ''),
    [several('digit', 2, 2), '-', several('run', 4)],
    { looks: 'any' },
  ),
  shape('anywhere', each('sk-', 'ant proj or svcacct admin lf None', '-'), [several('run', 16)]),
  shape('word', 'sk-', [several('run', 16)]),
  shape('anywhere', 'AIza', [several('run', 30)]),
  shape('anywhere', ['AKIA', 'ASIA'], [several('upper_digit', 16)]),
  shape('anywhere', 'ABSK', [several('base64', 20), padding(2)]),
  shape('anywhere', 'bedrock-api-key-', [several('base64', 16), padding(2)]),
  shape('anywhere', ['gsk_', 'hf_', 'r8_'], [several('run', 16)]),
  shape('anywhere', ['xai-', 'pplx-', 'nvapi-', 'tvly-'], [several('run', 16)]),
  shape('anywhere', each('gh', 'p o u s r', '_'), [several('letter_digit', 16)]),
  shape('anywhere', 'github_pat_', [several('letter_digit_underscore', 16)]),
  shape('anywhere', each('gl', 'pat ptt dt rt cbt soat ft imt agent', '-'), [
    several('run', 16),
    // Keys with two such parts are known; without a bound, a text of dots would be walked again from each key in it.
    { parts: ['.', several('run', 1)], most: 4 },
  ]),
  shape('anywhere', 'xox', [
    several('lower', 1, 1),
    { parts: ['.xox', several('lower', 1, 1)], most: 1 },
    '-',
    several('letter_digit_hyphen', 10),
  ]),
  shape('anywhere', 'xapp-', [several('letter_digit_hyphen', 12)]),
  shape('anywhere', 'svc_', [{ one_of: ['live_', 'test_'] }, several('letter_digit', 12)]),
  shape('anywhere', 'npm_', [several('letter_digit', 30)]),
  shape('anywhere', ['sk_', 'rk_', 'pk_'], [{ one_of: ['live_', 'test_'] }, several('letter_digit', 10)]),
  shape('anywhere', 'whsec_', [several('base64', 10), padding(2)]),
  shape('anywhere', 'eyJ', [
    several('run', 8),
    '.',
    several('run', 0),
    '.',
    several('run', 0),
    { parts: ['.', several('run', 0)], most: 2 },
  ]),
  shape('anywhere', 'dop_v1_', [several('letter_digit', 16)]),
  shape('anywhere', 'shp', [several('lower', 2, 2), '_', several('letter_digit', 16)]),
  shape('anywhere', 'pypi-', [several('run', 16)]),
  shape('anywhere', 'SG.', [several('run', 16), '.', several('run', 16)]),
  shape('anywhere', 'ya29.', [several('run', 16)]),
  shape('anywhere', 'AGE-SECRET', ['-KEY-1', several('upper_digit', 40)]),
  // A Terraform token begins with an id, before its recognisable part.
  shape('anywhere', 'atlasv1.', [several('run_equals', 40)], { id_before: 15 }),
  shape('token', each('lin_', 'api oauth', '_'), [several('letter_digit', 32)]),
  shape('token', 'ntn_', [several('letter_digit', 40)]),
  shape('token', 'secret_', [several('letter_digit', 43, 43)], { is_alone: true, looks: 'mixed' }),
  shape('token', 'dapi', [several('hex', 32, 32), { parts: ['-', several('digit', 1)], most: 1 }], {
    is_alone: true,
  }),
  shape('token', ['doo_v1_', 'dor_v1_'], [several('letter_digit', 32)]),
  shape('token', 'glsa_', [several('letter_digit', 32, 32), '_', several('any_hex', 8, 8)]),
  shape('token', 'glc_eyJ', [escaped(24), padding(2)]),
  shape('token', 'PMAK-', [several('hex', 24, 24), '-', several('hex', 34, 34)]),
  shape('token', ['ATATT3', 'ATCTT3'], [several('run_equals', 60)]),
  shape('token', 'sbp_', [{ parts: ['oauth_'], most: 1 }, several('hex', 40, 40)]),
  shape('token', 'sb_secret_', [several('run', 20)]),
  shape('token', ['fm1a_', 'fm1r_', 'fm2_'], [escaped(60), padding(3)]),
  shape('token', 'fo1_', [several('run', 43, 43)]),
  shape('token', 'GOCSPX-', [several('run', 20)]),
  shape('token', ['IQoJb3JpZ2lu', 'FwoGZXIvYXdz'], [escaped(60), padding(2)]),
  shape('token', 'pcsk_', [several('letter_digit', 4, 8), '_', several('letter_digit', 32)]),
  shape('token', 'tgp_v1_', [several('run', 32)]),
  shape('token', 'lsv2_', [{ one_of: ['pt_', 'sk_'] }, several('hex', 32, 32), '_', several('hex', 10, 10)]),
  shape('token', 'NRAK-', [several('letter_digit', 27)]),
  shape('token', 'HRKU-', [several('run', 30)]),
  shape('token', 'xkeysib-', [several('hex', 64, 64), '-', several('letter_digit', 16, 16)]),
  shape('token', 'sntryu_', [several('hex', 64, 64)]),
  shape('token', 'dckr_', [{ one_of: ['pat_', 'oat_'] }, several('run', 20)]),
  shape('token', 'figd_', [several('run', 36)]),
  shape('token', 'pscale_', [{ one_of: ['tkn_', 'pw_', 'oauth_'] }, several('run_dot_equals', 32)]),
  shape('token', 'e2b_', [several('hex', 40, 40)]),
  shape('token', 'tskey-', [
    several('lower', 1),
    '-',
    several('letter_digit', 8),
    '-',
    several('letter_digit', 16),
  ]),
  shape('token', 'rubygems_', [several('hex', 48, 48)]),
  shape('token', 'csk-', [several('lower_digit', 40)]),
  shape('token', 'sk_', [several('hex', 48, 48)], { is_alone: true }),
  shape('token', each('hv', 's b r', '.'), [several('run', 20)]),
  shape('token', each('dp.', 'pt ct sa scim audit', '.'), [several('letter_digit', 36)]),
  shape('token', 'dp.st.', [several('lower_digit_run', 1, 5), '.', several('letter_digit', 36)]),
  shape('token', 'dp.st.', [several('letter_digit', 36)]),
  shape('token', 'sl.u.', [several('run', 100)]),
  shape('token', 'sl.', [several('run', 100)]),
  shape('token', 'sk.eyJ', [several('run', 20), '.', several('run', 16)]),
  shape('word', 'fw_', [several('letter_digit', 20)]),
  shape('token', each('vc', 'p i a r k', '_'), [several('letter_digit', 24)]),
  shape('word', each('SK', '0 1 2 3 4 5 6 7 8 9 a b c d e f', ''), [several('hex', 31, 31)], {
    is_alone: true,
  }),
  shape('token', each('key-', '0 1 2 3 4 5 6 7 8 9 a b c d e f', ''), [several('hex', 31, 31)], {
    is_alone: true,
  }),
  shape('token', ['sq0atp-', 'sq0csp-'], [several('run', 22)]),
  shape('token', 'EAAA', [several('run', 56)]),
  shape('token', ['sntrys_eyJ', 'ops_eyJ'], [escaped(60), padding(2)]),
  shape('token', 'GR1348941', [several('run', 20)]),
  shape('token', 'ATBB', [several('letter_digit', 28)]),
  shape('token', 'sess-', [several('letter_digit', 40)]),
  shape(
    'token',
    ['apify_api_', 'bb_live_', 'mdb_sa_sk_', 'wandb_v1_', 'duffel_live_', 'shippo_live_'],
    [several('run', 20)],
  ),
  shape(
    'token',
    ['nfp_', 'napi_', 'rnd_', 'bkua_', 'phx_', 'jina_', 'pul-', 'llx-', 'CFPAT-', 'CCIPAT_'],
    [several('run', 24)],
  ),
  shape('token', each('sq', 'p u a', '_'), [several('hex', 40, 40)]),
  shape('token', 'AQ.Ab', [several('run', 40)]),
  shape('token', 'dt0', [
    several('lower', 1, 1),
    several('digit', 2, 2),
    '.',
    several('letter_digit', 24, 24),
    '.',
    several('letter_digit', 64, 64),
  ]),
];

/** Minimum length of a run that is examined. A text without such a run is not found, even if it matches a shape. */
export const RUN_BYTES = 16;
/** Bytes that may precede a run after a dot and belong to its key: `SG.`, `dp.st.prd.`. */
export const DOTTED_BYTES = 12;

/** Whether a beginning has a dot. Such a key is found without its beginning, because any run after a dot is suspect. */
function isDotted(begin: string): boolean {
  return begin.includes('.') || begin === 'dt0';
}

const anywhere = new Set<string>();
for (const { begins, at } of KEY_SHAPES) {
  for (const begin of begins) if (at !== 'token' && !isDotted(begin)) anywhere.add(begin);
}
const listed = [...anywhere];

/**
 * Beginnings that make a run suspect at any place in it. A beginning that itself starts with another one is left out,
 * because the shorter one is enough.
 */
export const BEGINNINGS: readonly string[] = listed.filter(
  (begin) => !listed.some((shorter) => shorter !== begin && begin.startsWith(shorter)),
);
/**
 * Beginnings that make a run suspect only where a token may begin: at the start of the run, or after the characters of
 * an escape that the run begins with (the `n` of `\n`). A word that contains one of BEGINNINGS is left out: `pcsk_`
 * contains `sk_`. Each has at least four bytes.
 */
export const FIRST_WORDS: readonly string[] = KEY_SHAPES.filter(({ at }) => at === 'token')
  .flatMap(({ begins }) => begins)
  .filter((begin) => !isDotted(begin) && !BEGINNINGS.some((contained) => begin.includes(contained)));

/**
 * Divides the pairs of bytes with which BEGINNINGS begin into eight groups. Pairs with the same first byte are in one
 * group, because the native filter tests the groups of the two bytes separately.
 */
export function groupPairs(): string[][] {
  const byFirst = new Map<string, Set<string>>();
  for (const begin of BEGINNINGS) {
    const pairs = byFirst.get(begin[0]!) ?? new Set();
    byFirst.set(begin[0]!, pairs.add(begin.slice(0, 2)));
  }
  const groups: string[][] = Array.from({ length: 8 }, () => []);
  for (const pairs of [...byFirst.values()].sort((a, b) => b.size - a.size)) {
    groups.reduce((least, group) => (group.length < least.length ? group : least)).push(...pairs);
  }
  return groups;
}
