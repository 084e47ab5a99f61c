package glassmq.compat;

/** One expectation of what a client meets. */
@FunctionalInterface
interface Case {
    /** Returns a word about what was seen; throws with a sentence when it is not what it should be. */
    String run(World world) throws Exception;
}
