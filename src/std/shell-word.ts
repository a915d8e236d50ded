/** Words of commands that people are told to type. Any thread. */

/** POSIX shells: a word of harmless characters stands as it is, another one in single quotes. */
export function quoteForShell(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
