/** Quotes words of commands that users should type. Any thread. */

/** Quotes a word for POSIX shells: a word of harmless characters is unchanged, any other is put in single quotes. */
export function quoteForShell(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
