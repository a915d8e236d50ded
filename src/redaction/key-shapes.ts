/**
 * The shapes of keys, in one table: what the search for them, its filters in TypeScript and the native header
 * `native/bytes/key-table.h` are all made of, so that no key can be known to one of them and not to another.
 * Data only; it imports nothing, since the native code's fallback reads it. Any thread.
 *
 * Sources: RFC 7519 (JWT); the prefixes that the providers publish for secret scanning.
 */

/** Sets of characters, a bit each. */
export const CHARACTERS = {
  /** What a run is made of: letters, digits, `-` and `_`. */
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
  /** What a Bearer token or base64 may hold. */
  token: 1 << 15,
  lower_run: 1 << 16,
} as const;
export type Characters = keyof typeof CHARACTERS;

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
  lower_run: /[a-z_-]/,
};

/** For each byte the sets that it is in. */
export const KINDS: Uint32Array = Uint32Array.from({ length: 256 }, (_, byte) => {
  const char = String.fromCharCode(byte);
  let kinds = 0;
  for (const [name, bit] of Object.entries(CHARACTERS))
    if (MEMBERS[name as Characters].test(char)) kinds |= bit;
  return kinds;
});

/** As many as there are, between two numbers. `escaped` counts `\/` as one, as some JSON writers have it. */
export interface Several {
  of: Characters;
  least: number;
  most: number;
  escaped: boolean;
}

/** One after the other; what is taken is never given back, so a shape is matched in one walk. */
export type Part =
  | string
  | Several
  | { one_of: readonly string[] }
  /** The parts together, so many times at most; none is enough. */
  | { parts: readonly Part[]; most: number };

export interface KeyShape {
  /** What the shape begins with, one of them. */
  begins: readonly string[];
  then: readonly Part[];
  /**
   * Where: anywhere; not within a word; or where a token begins, for what is common within words. In JSON a key often
   * follows an escape, and `\nsk-ant-…` has a letter before it: behind an escape a token begins, too.
   */
  at: 'anywhere' | 'word' | 'token';
  /** No byte of a run may follow. */
  is_alone: boolean;
  /** Names in code begin like that, too: what follows must look like no name. */
  looks: 'any' | 'no_name' | 'mixed';
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
  return { begins: list, then, at, is_alone: false, looks: 'any', id_before: 0, ...rest };
}

const each = (before: string, middles: string, behind: string): string[] =>
  middles.split(' ').map((middle) => `${before}${middle}${behind}`);

/** In the order in which they are tried at a place: the first that matches counts. */
export const KEY_SHAPES: readonly KeyShape[] = [
  shape('anywhere', each('sk-', 'ant proj or svcacct admin lf None', '-'), [several('run', 8)]),
  shape('word', 'sk-', [several('run', 16)], { looks: 'no_name' }),
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
    // Two are known; without an end, a text of dots would be walked again from each key in it.
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
  // A token of Terraform begins with an id, before what it is known by.
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
  shape('token', 'dt0', [
    several('lower', 1, 1),
    several('digit', 2, 2),
    '.',
    several('letter_digit', 24, 24),
    '.',
    several('letter_digit', 64, 64),
  ]),
];

/** Bytes that make a run; fewer are in no key's filter. Every shape holds one, or lies around one. */
export const RUN_BYTES = 16;
/** What may stand before a run that follows a dot, and belongs to its key: `SG.`, `dp.st.prd.`. */
export const DOTTED_BYTES = 12;

/** Whether a beginning's key is found by the run behind its dot, which is a suspect by that dot alone. */
function isDotted(begin: string): boolean {
  return begin.includes('.') || begin === 'dt0';
}

const anywhere = new Set<string>();
for (const { begins, at } of KEY_SHAPES) {
  for (const begin of begins) if (at !== 'token' && !isDotted(begin)) anywhere.add(begin);
}
const listed = [...anywhere];

/**
 * What makes a run suspect wherever it stands in it. A beginning that begins with another one is left out, and those that
 * hold one (`pcsk_`) need none.
 */
export const BEGINNINGS: readonly string[] = listed.filter(
  (begin) => !listed.some((other) => other !== begin && begin.startsWith(other)),
);
/** What does so where the run begins alone, or behind what is left there of an escape. Each has four bytes at least. */
export const FIRST_WORDS: readonly string[] = KEY_SHAPES.filter(({ at }) => at === 'token')
  .flatMap(({ begins }) => begins)
  .filter((begin) => !isDotted(begin) && !BEGINNINGS.some((other) => begin.includes(other)));

/**
 * Two bytes that beginnings begin with, in eight groups: those with the same first byte together, since the native filter asks of
 * both bytes by themselves whether they are in a group.
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
