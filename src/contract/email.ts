/**
 * Whether a text has the form of an e-mail address, in the words of the library that the recorded service uses
 * (email-validator; RFC 5321 and 6531 without quoted local parts, comments and address literals). Pure; any thread.
 */

/** Maximum length of an address. The library checks the length first. */
const ADDRESS_CHARACTERS = 2_048;
/**
 * Maximum lengths of the part after the @ and of the whole address, in UTF-8 (RFC 5321: 4.5.3.1.2, and the
 * limit of a path without its brackets). The library limits the part before the @ (4.5.3.1.1) only in strict
 * mode, which the recorded service does not use.
 */
const DOMAIN_OCTETS = 253;
const ADDRESS_OCTETS = 254;
/** Maximum length of one label of a domain (RFC 1035, 2.3.4). */
const LABEL_OCTETS = 63;

/** A combining mark at the beginning of a part attaches to the character before the part, such as the @. */
const BEGINS_WITH_MARK = /^\p{M}/u;
const LOCAL_ALLOWED = /[\w!#$%&'*+\-/=?^`{|}~.]/;
/** Reserved domains, which do not exist on the internet (RFC 6761, RFC 2606). */
const SPECIAL_DOMAINS = ['arpa', 'invalid', 'local', 'localhost', 'onion', 'test'];

/** Finds out what is wrong with an address, in the words of the library; null: nothing. */
export function findEmailFault(address: string): string | null {
  if (address.length > ADDRESS_CHARACTERS) return `Length must not exceed ${ADDRESS_CHARACTERS} characters`;
  const at = address.lastIndexOf('@');
  if (at < 0) return 'An email address must have an @-sign.';
  const local = address.slice(0, at);
  const domain = address.slice(at + 1);
  if (local === '') return 'There must be something before the @-sign.';
  if (/^".*"$/s.test(local)) return 'Quoting the part before the @-sign is not allowed here.';
  return findLocalFault(local) ?? findDomainFault(domain) ?? findLengthFault(address);
}

const NAME_WORD = "[\\p{L}\\p{N}_!#$%&'*+\\-/=?^`{|}~]+";
/** `Ann Lee <ann@b.co>`. The name may be in quotes or missing, as pydantic accepts it. */
const NAMED_ADDRESS = new RegExp(
  `^\\s*(?:${NAME_WORD}(?:\\s+${NAME_WORD})*\\s*|"[\\s\\S]+"\\s*)?<(.+)>\\s*$`,
  'u',
);

/** Extracts the address from a text that may have space around it or a name before it. */
export function bareAddress(text: string): string {
  // A text that is too long is returned unchanged, so that the check of the length refuses it.
  if (text.length > ADDRESS_CHARACTERS) return text;
  return (NAMED_ADDRESS.exec(text)?.[1] ?? text).trim();
}

function findLocalFault(local: string): string | null {
  if (local.startsWith('.')) return 'An email address cannot start with a period.';
  if (local.endsWith('.')) return 'An email address cannot have a period immediately before the @-sign.';
  if (local.includes('..')) return 'An email address cannot have two periods in a row.';
  const bad = new Set([...local].filter((character) => !isLocalCharacter(character)));
  if (bad.size > 0) {
    const names = [...bad].slice(0, 10).map(nameCharacter).join(', ');
    return `The email address contains invalid characters before the @-sign: ${names}.`;
  }
  return BEGINS_WITH_MARK.test(local)
    ? 'The email address contains unsafe characters before the @-sign.'
    : null;
}

/**
 * Whether the part before the @ may contain the character. Beyond ASCII, it may contain every letter, mark,
 * digit, symbol and punctuation mark (RFC 6531).
 */
function isLocalCharacter(character: string): boolean {
  return character > '\x7f' ? /[\p{L}\p{M}\p{N}\p{S}\p{P}]/u.test(character) : LOCAL_ALLOWED.test(character);
}

function findDomainFault(domain: string): string | null {
  if (domain === '') return 'There must be something after the @-sign.';
  if (domain.startsWith('[')) return 'A bracketed IP address after the @-sign is not allowed here.';
  const bad = new Set([...domain].filter((character) => !/[\p{L}\p{M}\p{N}.-]/u.test(character)));
  if (bad.size > 0) {
    const names = [...bad].slice(0, 10).map(nameCharacter).join(', ');
    return `The part after the @-sign contains invalid characters: ${names}.`;
  }
  if (BEGINS_WITH_MARK.test(domain)) return 'The email address contains unsafe characters after the @-sign.';
  if (domain.startsWith('.')) return 'An email address cannot have a period immediately after the @-sign.';
  if (domain.endsWith('.')) return 'An email address cannot end with a period.';
  if (domain.includes('..')) return 'An email address cannot have two periods in a row.';
  if (domain.startsWith('-')) return 'An email address cannot have a hyphen immediately after the @-sign.';
  if (domain.endsWith('-')) return 'An email address cannot end with a hyphen.';
  if (/-\.|\.-/.test(domain)) return 'An email address cannot have a period and a hyphen next to each other.';
  if (/(?:^|\.)(?!xn).{2}--/iu.test(domain)) {
    return 'An email address cannot have two letters followed by two dashes immediately after the @-sign or after a period, except Punycode.';
  }
  for (const label of domain.split('.')) {
    const excess = Buffer.byteLength(label) - LABEL_OCTETS;
    if (excess > 0) {
      return `After the @-sign, periods cannot be separated by so many characters (${describeExcess(excess)}).`;
    }
  }
  const excess = Buffer.byteLength(domain) - DOMAIN_OCTETS;
  if (excess > 0) return `The email address is too long after the @-sign (${describeExcess(excess)}).`;
  if (!domain.includes('.')) return 'The part after the @-sign is not valid. It should have a period.';
  const last = domain.slice(domain.lastIndexOf('.') + 1).toLowerCase();
  if (!/\p{L}$/u.test(last))
    return 'The part after the @-sign is not valid. It is not within a valid top-level domain.';
  if (SPECIAL_DOMAINS.includes(last)) {
    return 'The part after the @-sign is a special-use or reserved name that cannot be used with email.';
  }
  return null;
}

function findLengthFault(address: string): string | null {
  const excess = Buffer.byteLength(address) - ADDRESS_OCTETS;
  return excess > 0 ? `The email address is too long (${describeExcess(excess)}).` : null;
}

function describeExcess(count: number): string {
  return `${count} character${count === 1 ? '' : 's'} too many`;
}

function nameCharacter(character: string): string {
  if (character === ' ') return 'SPACE';
  if (/[\p{L}\p{N}\p{P}\p{S}]/u.test(character)) return `'${character}'`;
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`;
}
