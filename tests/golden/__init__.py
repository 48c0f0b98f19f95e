"""Files with what users and stored data rely on. A change of one of them needs its own decision."""
